"""With the reward code-correct-first, every correct program outranks every wrong one."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from support.writing import shipped_reward

from collab.recipe import RewardSpec
from collab.records import Score

Score_ = Callable[..., Score]

AUX = "def aux(x):\n    return x * x"
MAIN = "def sum_of_squares(xs):\n    return sum(aux(x) for x in xs)"
ALONE = "def sum_of_squares(xs):\n    return sum(x * x for x in xs)"
NEW_ENTRY = "def sum_of_squares(xs):\n    "


@pytest.fixture
def correct_first() -> RewardSpec:
    return shipped_reward("code-correct-first")


def _all_scores(spec: RewardSpec) -> list[tuple[bool, float]]:
    """List all combinations of part values that the gates allow, as solved and total points."""
    scores = []
    names = list(spec.parts)
    choices: dict[str, tuple[float, ...]] = dict.fromkeys(names, (0.0, 1.0))
    choices["tests"] = (0.0, 0.25, 0.999, 1.0)
    for combination in itertools.product(*(choices[name] for name in names)):
        raw = dict(zip(names, combination, strict=True))
        if raw["solved"] and raw["tests"] < 1.0:
            continue
        done: dict[str, float] = {}
        closed = False
        for name, part in spec.parts.items():
            unmet = part.requires is not None and not done[part.requires]
            done[name] = 0.0 if closed or unmet else raw[name]
            closed = closed or (part.gate and not done[name])
        total = sum(part.weight * done[name] for name, part in spec.parts.items())
        scores.append((bool(done["solved"]), total))
    return scores


def test_every_correct_program_outranks_every_wrong_one(correct_first: RewardSpec) -> None:
    scores = _all_scores(correct_first)
    worst_correct = min(total for solved, total in scores if solved)
    best_wrong = max(total for solved, total in scores if not solved)
    assert worst_correct > best_wrong


def test_correct_without_aux_outranks_wrong_with_every_bonus(
    score: Score_, correct_first: RewardSpec, published: RewardSpec
) -> None:
    wrong = {"aux": AUX, "main": NEW_ENTRY + "return sum(aux(x) for x in xs) if xs != [3] else 1"}
    correct = {"aux": "", "main": ALONE}
    assert score(correct_first, correct).reward > score(correct_first, wrong).reward
    assert score(published, correct).reward < score(published, wrong).reward


def test_rewards_increase_gradually_before_correctness(
    score: Score_, correct_first: RewardSpec
) -> None:
    ladder: list[dict[str, Any]] = [
        {"aux": "", "main": ""},
        {"aux": AUX, "main": ""},
        {"aux": AUX, "main": NEW_ENTRY + "return -1"},
        {"aux": AUX, "main": NEW_ENTRY + "return 5"},
        {"aux": AUX, "main": NEW_ENTRY + "return sum(aux(x) for x in xs[:1])"},
        {"aux": "", "main": ALONE},
        {"aux": AUX, "main": MAIN},
    ]
    rewards = [score(correct_first, artifacts).reward for artifacts in ladder]
    assert rewards == sorted(set(rewards)), rewards
