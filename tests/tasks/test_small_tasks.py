"""The suites for small models: generated from a seed; only honest answers earn everything."""

import asyncio
import re
from collections.abc import Sequence
from functools import lru_cache
from statistics import fmean

import pytest
from support.blocks import DOCS
from support.cheats import CHEATS, HONEST, Answers, Fields, fields
from support.scoring import joined_score, reward_of
from support.shares import one_in, one_row_in

from collab import load_recipe
from collab.recipe import TaskSpec, load_task
from collab.records import Problem
from collab.rewards import Scorer
from collab.tasks import open_suite

SUITES = ("same-name", "signals", "duet", "split-sum")
LEVELS = [("same_name", 3), ("signals", 3), ("split_sum", 3), ("duet", 0), ("pocket_code", 3)]
BEST_CHEAT = {"same-name": 0.0, "signals": 0.34, "duet": 0.5, "split-sum": 0.15}
"""Per suite, the highest average score without doing the task.

In `signals` and `split-sum` it comes from chance, in `duet` from the form alone.
"""


@lru_cache
def problems(name: str) -> Sequence[Problem]:
    return open_suite(load_task(name)).select("")


def rewards(name: str, answers: Answers, count: int, reward: str = "") -> list[float]:
    """Rewards of the answers to the first problems of a suite."""
    recipe = load_recipe(name, task=name, settings=[f"task.reward={reward or name}"])
    scorer = Scorer(reward_of(recipe.task), None, recipe.team.roles)
    agents = list(recipe.team.agents)

    async def score() -> list[float]:
        found = []
        for problem in problems(name)[:count]:
            artifacts = dict(zip(agents, answers(fields(problem)), strict=True))
            joint_score = await joined_score(scorer, problem, artifacts, agents, "text")
            assert joint_score.maximum == 1.0
            found.append(joint_score.reward)
        return found

    return asyncio.run(score())


def rows(use: str, level: int, seed: int = 0, count: int = 20) -> list[dict[str, object]]:
    generate = {"use": use, "options": {"level": level} if level else {}}
    source = {"generate": generate, "rows": count, "seed": seed}
    spec = {"name": use, "kind": "text", "source": source, "hidden": [], "reward": "duet"}
    spec["reward"] = {"parts": {"agree": {"use": "agree"}}}
    return list(open_suite(TaskSpec.model_validate(spec)).rows)


@pytest.mark.parametrize(
    ("use", "level"),
    [(use, level) for use, most in LEVELS for level in range(min(most, 1), most + 1)],
)
def test_seed_determines_the_rows_and_all_rows_differ(use: str, level: int) -> None:
    generated = rows(use, level)
    assert rows(use, level, count=19) == generated[:19]
    assert rows(use, level, seed=1) != generated
    contents = {
        tuple(sorted((k, str(v)) for k, v in row.items() if k != "task_id")) for row in generated
    }
    assert len(contents) == len(generated) == len({row["task_id"] for row in generated})


@pytest.mark.parametrize("name", SUITES)
def test_splits_are_disjoint_and_complete(name: str) -> None:
    suite = open_suite(load_task(name))
    train, test = (suite.select(split) for split in ("train", "test"))
    assert len(train) + len(test) == len(suite)
    assert not {p.address for p in train} & {p.address for p in test}


@pytest.mark.parametrize(("name", "way"), [(name, way) for name in SUITES for way in HONEST[name]])
def test_honest_answers_earn_the_maximum(name: str, way: str) -> None:
    assert rewards(name, HONEST[name][way], 60) == [1.0] * 60


@pytest.mark.parametrize(
    ("name", "way"), one_row_in(20, [(name, way) for name in SUITES for way in CHEATS[name]])
)
def test_cheats_earn_no_more_than_the_known_limit(name: str, way: str) -> None:
    found = rewards(name, CHEATS[name][way], 72)
    assert fmean(found) <= BEST_CHEAT[name]


@pytest.mark.parametrize("way", one_in(3, CHEATS["split-sum"]))
def test_half_a_sum_earns_nothing_when_all_is_required(way: str) -> None:
    assert fmean(rewards("split-sum", CHEATS["split-sum"][way], 40, "split-sum-and")) <= 0.05


def test_sum_is_scored_by_halves_or_as_a_whole() -> None:
    def half(row: Fields) -> tuple[str, str]:
        return row["last"], "no"

    assert set(rewards("split-sum", half, 5)) == {0.5}
    assert set(rewards("split-sum", half, 5, "split-sum-and")) == {0.0}
    honest = HONEST["split-sum"]["the sum"]
    assert set(rewards("split-sum", honest, 5, "split-sum-and")) == {1.0}


@pytest.mark.parametrize("level", [1, 2, 3])
def test_no_digit_answers_too_many_sums(level: int) -> None:
    pairs = [(row["last"], row["leading"]) for row in rows("split_sum", level, count=160)]
    for half in zip(*pairs, strict=True):
        assert max(map(half.count, half)) < 0.3 * len(pairs)


@pytest.mark.parametrize("name", [*SUITES, "pocket-code"])
def test_measured_values_in_the_description_match_the_docs(name: str) -> None:
    values = re.findall(r"\b(?:mean|8 x 8|played):? (\d\.\d\d)", load_task(name).description)
    rows = [row for row in (DOCS / "tasks.md").read_text().splitlines() if f"| `{name}`" in row]
    measured = [cell.split(",")[0].strip() for row in rows for cell in row.split("|")]
    assert len(values) >= 2
    assert set(values) <= set(measured)
