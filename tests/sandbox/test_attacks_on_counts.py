"""Every program of `counts` earns no more than an honest failure and leaves nothing behind."""

import asyncio
from typing import Any

import pytest
from support.attacks.counts import HONEST_FAILURE, MARKS, TEST, WAYS, attacks
from support.attacks.run import HONEST, check_harmless, run_all, trial

from collab.recipe.sandbox import SandboxSpec
from collab.sandbox import Sandbox

Outcomes = dict[str, dict[str, Any]]


EVERY = attacks()
OVER_A_LIMIT = (
    "way/tuples_of_one_hash", "way/nested_tuples_of_one_hash", "way/complex_of_one_hash",
    "way/forged_set_of_one_hash", "way/huge_integer", "way/many_ranges",
)  # fmt: skip
SOME = [name for number, name in enumerate(EVERY) if number % 8 == 0 or name in OVER_A_LIMIT[::3]]
"""Programs that run by default; the slow tests run the others."""


@pytest.fixture(scope="module")
def outcomes() -> Outcomes:
    return outcomes_of(SOME)


def outcomes_of(names: list[str]) -> Outcomes:
    programs = {"honest failure": HONEST_FAILURE, **{name: EVERY[name] for name in names}}
    ways = {name: program for name, program in programs.items() if not name.startswith("mark")}
    marks = {name: program for name, program in programs.items() if name.startswith("mark")}
    return asyncio.run(run_all(ways, TEST)) | asyncio.run(run_all(marks, TEST, times=2))


def test_the_corpus_is_large() -> None:
    assert len(WAYS) >= 40
    assert len(MARKS) >= 20


def test_correct_program_passes_and_honest_failure_earns_partial_credit(outcomes: Outcomes) -> None:
    async def main() -> tuple[bool, int, int]:
        async with Sandbox(SandboxSpec(workers=1)) as sandbox:
            verdict = await sandbox.check(trial(HONEST, TEST))
            return verdict.passed, verdict.tests.passed, verdict.tests.total

    assert asyncio.run(main()) == (True, 16, 16)
    assert outcomes["honest failure"]["tests"] == [4, 16]


def test_some_attacks(outcomes: Outcomes) -> None:
    for name in SOME:
        _check(name, outcomes[name])


@pytest.mark.slow
def test_every_other_attack() -> None:
    others = [name for name in EVERY if name not in SOME]
    outcomes = outcomes_of(others)
    for name in others:
        _check(name, outcomes[name])


def _check(name: str, outcome: dict[str, Any]) -> None:
    check_harmless(name, outcome)
    held, total = outcome["tests"]
    assert held <= 4, ("it was paid for tests that it does not pass", name)
    assert total >= 16, ("tests were left out", name)
    if name in OVER_A_LIMIT:
        assert "answer_limit" in outcome["flags"], ("the test saw it", name)
