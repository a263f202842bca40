"""MARLHF: the reward model learns the order of rewards, and the team is paid by it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.rule_runs import check_resume
from support.trainer_recipes import make_game

from collab.errors import RecipeError
from collab.recipe import Recipe
from collab.trainers.credit import algorithm_for
from collab.trainers.credit.games import (
    Game,
    GameModels,
    additive,
    estimate,
    one_turn,
    sample,
    sequential_code,
    two_turns,
)
from collab.trainers.credit.group import Group, Weights
from collab.trainers.credit.marlhf import MARLHF, with_rewards
from collab.trainers.credit.shape import Shape
from collab.trainers.training.check import check_recipe


def groups_of(game: Game, n: int, size: int = 6, seed: int = 0) -> list[Group]:
    rng = np.random.default_rng(seed)
    return [sample(game, size, rng) for _ in range(n)]


async def opened(**options: Any) -> MARLHF:
    rule = MARLHF(**{"rate": 0.02, "warmup": 0, **options})
    await rule.open(GameModels(512))
    return rule


def run(steps: Sequence[Sequence[Group]], **options: Any) -> tuple[MARLHF, list[list[Weights]]]:
    async def ask() -> tuple[MARLHF, list[list[Weights]]]:
        rule = await opened(**options)
        return rule, [await rule.credit(groups) for groups in steps]

    return asyncio.run(ask())


@pytest.mark.parametrize("structure", ["chains", "tree"])
def test_other_rewards_have_the_returns_that_follow(structure: Any) -> None:
    game = two_turns()
    game = replace(game, solved=game.rewards[0] > 2, discount=0.5)
    for seed in range(3):
        shape = Shape(structure, 3, game.turns)
        group = sample(game, 3, np.random.default_rng(seed), shape=shape)
        again = with_rewards(group, group.rewards)
        assert (again.returns, again.absorbed) == (group.returns, group.absorbed)
        doubled = with_rewards(
            group, {n: {a: 2 * v for a, v in r.items()} for n, r in group.rewards.items()}
        )
        assert all(doubled.returns[n]["aux"] == 2 * r["aux"] for n, r in group.returns.items())


@pytest.mark.parametrize("game", [additive(), sequential_code(variants=1)])
def test_what_it_pays_points_along_the_gradient(game: Game) -> None:
    async def found() -> dict[str, float]:
        rule = await opened()
        for groups in (groups_of(game, 4, seed=n) for n in range(30)):
            await rule.credit(groups)
        assert rule.measures()["reward_model/ordered"] > 0.9
        told = await estimate(game, rule, groups=100, group_size=6)
        return {
            agent: float(told.mean[agent] @ told.gradient[agent])
            / float(np.linalg.norm(told.mean[agent]) * np.linalg.norm(told.gradient[agent]))
            for agent in game.agents
        }

    assert min(asyncio.run(found()).values()) > 0.8


def test_only_the_order_of_rewards_counts() -> None:
    game = one_turn([[1.0, 5.0, 2.0], [0.0, 3.0, 9.0]], [0.4, 0.6], [0.2, 0.3, 0.5])
    bent = replace(game, rewards=(np.exp(game.rewards[0]) - 7,))
    found = run([groups_of(game, 2, seed=n) for n in range(5)], pairs=100)[1]
    other = run([groups_of(bent, 2, seed=n) for n in range(5)], pairs=100)[1]
    assert found[-1][0] == pytest.approx(other[-1][0], abs=1e-5)
    assert max(map(abs, found[-1][0].values())) > 0.1  # type: ignore[arg-type]


def test_equal_rewards_teach_nothing() -> None:
    rule, [weights] = run([groups_of(one_turn(np.ones((2, 2)), [0.5, 0.5], [0.5, 0.5]), 2)])
    assert rule.state()["learned"] == 0
    assert rule.measures() == {"reward_model/steps": 0, "reward_model/pairs": 0}
    assert len(weights) == 2


def test_nobody_is_paid_before_the_warm_up_is_over() -> None:
    steps = [groups_of(additive(), 2, seed=n) for n in range(4)]
    _, weights = run(steps, warmup=2)
    alive = [any(any(w.values()) for w in found) for found in weights]
    assert alive == [False, False, True, True]


def test_a_step_is_paid_before_it_is_learned_from() -> None:
    """Other rewards of a step leave the weights of that step as they are."""
    steps = [groups_of(additive(), 2, seed=n) for n in range(3)]
    turned = [[with_rewards(g, _negated(g)) for g in steps[2]]]
    assert run(steps)[1][-1] == run(steps[:2] + turned)[1][-1]


def _negated(group: Group) -> dict[tuple[int, int], dict[str, float]]:
    return {node: {a: -r for a, r in found.items()} for node, found in group.rewards.items()}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"group_size": 1}, "set group_size to 2 or more"),
        ({"local_parts": {"a": ["a_left"]}}, "learns one reward for the whole team"),
        ({"turn_structure": "greedy"}, "set turn_structure to 'chains' or 'tree'"),
    ],
)
def test_where_there_is_no_reward_to_learn_it_is_refused(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    recipe = make_game(Path("model"), tmp_path, algorithm="marlhf", **changes)
    assert recipe.trainer is not None
    algorithm = algorithm_for(recipe.trainer.algorithm)
    with pytest.raises(RecipeError, match=message):
        algorithm.check(recipe, recipe.trainer)


def test_episodes_of_unequal_length_are_refused(tmp_path: Path) -> None:
    data = make_game(Path("model"), tmp_path, algorithm="marlhf").model_dump()
    data["team"] |= {"turns": 2, "when_solved": "stop"}
    recipe = Recipe.model_validate(data)
    assert recipe.trainer is not None
    with pytest.raises(RecipeError, match="when_solved to 'absorb'"):
        MARLHF().check(recipe, recipe.trainer)


@pytest.mark.slow
def test_it_trains_and_goes_on_bit_by_bit(tiny_words: Path, tmp_path: Path) -> None:
    algorithm = {"use": "marlhf", "options": {"warmup": 1, "rate": 0.05}}
    rows = check_resume(algorithm, tiny_words, tmp_path, group_size=6)
    assert rows[0]["groups/dead"] == 1
    assert rows[-1]["groups/dead"] < 1
    assert rows[-1]["reward_model/loss"] > 0
    check_recipe(make_game(tiny_words, tmp_path, algorithm=algorithm))
