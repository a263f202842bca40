"""The number of program runs needed to learn whether its helper contributes."""

import asyncio
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

from collab import records
from collab.rewards.code.cooperation import MAX_TIMEOUTS, contribution
from collab.sandbox import Treatment, Verdict
from collab.sandbox.verdict import Check, Values

ROOT = Path(__file__).parents[2]
MOST = 20
"""The most runs that docs/rewards.md names, including the scored run."""
RIGHT = "right"
Run = tuple[str, int, int]
"""Values (`""` without a treatment), seed, and number of the run."""


class Scripted:
    """A fake reward context that answers by run and counts the runs."""

    def __init__(self, answer: Callable[[Run], str], hangs: Callable[[Run], bool]) -> None:
        self._answer, self._hangs = answer, hangs
        self.runs: list[Run] = []

    async def verdict(self, *, treatment: Treatment | None = None, run: int = 0) -> Verdict:
        key = (treatment.values, treatment.seed, run) if treatment else ("", 0, run)
        if key not in self.runs:  # the real context caches verdicts
            self.runs.append(key)
        answer = self._answer(key)
        held = answer == RIGHT
        return Verdict(
            passed=held,
            tests=records.Tests(passed=int(held), total=1),
            checks=(Check(line=1, source="assert f()", held=held, answer=answer or None),),
            loaded=True,
            flags=("time_limit",) if self._hangs(key) else (),
            isolation="sealed",
            seconds=0.0,
        )


def tried(
    answer: Callable[[Run], str], hangs: Callable[[Run], bool] = lambda _: False
) -> tuple[bool, list[Run]]:
    context: Any = Scripted(answer, hangs)
    shown, _ = asyncio.run(contribution(context, "aux"))
    return shown, context.runs


def answers(**by_values: str) -> Callable[[Run], str]:
    return lambda run: by_values.get(run[0], RIGHT)


CHANGED = dict.fromkeys(("once", "other", "longer", "shorter"), "wrong")
MATTER = {"zeros": "f", "ones": "o"}


@pytest.mark.parametrize(
    ("answer", "count"),
    [
        (lambda run: RIGHT if run[0] in ("", "true") else f"{run[0]} {run[1]}", 9),
        (answers(none="n", zeros="z", ones="o", first="f", previous="p"), 13),
        (answers(opaque="o", **CHANGED, **MATTER, first="f", previous="f", shifted="s"), 19),
    ],
    ids=["values of another type", "new values", "shifted boolean"],
)
def test_cooperating_program_takes_expected_runs(answer: Callable[[Run], str], count: int) -> None:
    shown, runs = tried(answer)
    assert shown
    assert len(runs) == count, runs


def test_no_program_takes_more_runs_than_documented() -> None:
    """Uses programs with random answers that repeat for equal runs."""
    counts = []
    for seed in range(600):
        chance = random.Random(seed)
        right = chance.random()
        table = {
            (values, number): RIGHT if chance.random() < right else chance.choice("abc")
            for values in ("", *get_args(Values))
            for number in (0, 1)
        }
        table["", 0] = table["true", 0] = RIGHT
        _, runs = tried(lambda run, table=table: table[run[0], run[1]])  # type: ignore[misc]
        counts.append(len(runs))
    assert max(counts) <= MOST
    assert len({*counts}) > 5, "the programs need different numbers of runs"


def test_docs_state_the_maximum_number_of_runs() -> None:
    text = " ".join((ROOT / "docs" / "rewards.md").read_text().split())
    limit = re.search(r"need nine runs, some need thirteen, and none needs more than (\d+)\b", text)
    assert limit
    assert int(limit.group(1)) == MOST


def test_two_timeouts_end_the_replacements() -> None:
    answer = answers(none="n", **CHANGED, first="f", previous="p")
    hangs = {("once", 0, 0), ("once", 1, 0)}
    assert len(hangs) == MAX_TIMEOUTS
    shown, runs = tried(answer, lambda run: run in hangs)
    assert not shown
    assert runs == [("", 0, 0), ("true", 0, 0), ("none", 0, 0), *sorted(hangs)]


def test_single_timeout_does_not_end_the_replacements() -> None:
    """Its verdict is read again, but it does not run a second time."""
    answer = answers(opaque="o", **CHANGED, **MATTER, first="f", previous="f", shifted="s")
    assert tried(answer, lambda run: run[0] == "opaque")[0]
    assert tried(answer, lambda run: run == ("once", 0, 0))[0]
