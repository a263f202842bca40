"""The cooperation game of the MAGRPO paper (appendix): joint rewards make agents cooperate.

Each of two agents says one of two words. The joint payoff is [[10, 7], [7, 0]]. Each agent alone
gets 5 if both cooperate; if only the second cooperates, they get 6 and 1. So the first agent alone
does better if it leaves the work to the second.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from support.tiny_words import save_tiny

from collab.recipe import Recipe
from collab.trainers import TrainingRun

WORDS = ("work", "rest")
PAY = {
    "pay_a": {"work": {"work": 5, "rest": 1}, "rest": {"work": 6, "rest": 0}},
    "pay_b": {"work": {"work": 5, "rest": 6}, "rest": {"work": 1, "rest": 0}},
}
INDIVIDUAL = {"team_weight": 0.0, "local_parts": {"a": ["pay_a"], "b": ["pay_b"]}}
OPTIMUM = 10.0


@pytest.fixture(scope="session")
def two_words(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("two_words"), WORDS, hidden=128, spread=0.1)


def play(model: Path, folder: Path, seed: int, steps: int, **trainer: Any) -> float:
    """Train, and return the mean joint utility of the last steps."""
    path = folder / "game.jsonl"
    path.write_text("".join(json.dumps({"task_id": str(n)}) + "\n" for n in range(2)))
    parts = {
        name: {"use": "utility", "weight": 6, "options": {"table": table, "maximum": 6}}
        for name, table in PAY.items()
    }
    recipe = Recipe.model_validate(
        {
            "model": {"name": str(model), "dtype": "float32", "device": "cpu"},
            "sampling": {"max_new_tokens": 1},
            "seed": seed,
            "team": {"name": "pair", "agents": {"a": {"prompt": "you"}, "b": {"prompt": "end"}}},
            "task": {
                "name": "game",
                "kind": "text",
                "source": {"path": str(path)},
                "reward": {"parts": parts},
            },
            "trainer": {
                "steps": steps,
                "group_size": 32,
                "learning_rate": 0.003,
                "checkpoint_every": 1000,
                **trainer,
            },
        }
    )
    rewards: list[float] = []

    def watch(event: Any) -> None:
        if event.type == "step.finished":
            rewards.append(event.metrics["return/mean"])

    asyncio.run(TrainingRun(recipe, folder / f"run-{seed}", emit=watch).run())
    return sum(rewards[-5:]) / 5


@pytest.mark.slow
def test_two_of_three_seeds_reach_the_joint_optimum(two_words: Path, tmp_path: Path) -> None:
    found = [play(two_words, tmp_path, seed, steps=30) for seed in range(3)]
    assert sum(value > 0.95 * OPTIMUM for value in found) >= 2, found


@pytest.mark.slow
def test_individual_rewards_reach_the_optimum_in_at_most_one_of_three(
    two_words: Path, tmp_path: Path
) -> None:
    found = [play(two_words, tmp_path, seed, steps=30, **INDIVIDUAL) for seed in range(3)]
    assert found[0] < 0.8 * OPTIMUM
    assert sum(value > 0.95 * OPTIMUM for value in found) <= 1, found
