"""Algorithms that learn from one team reward name agents with different rewards."""

import asyncio
from pathlib import Path

import numpy as np
import pytest
from support.algorithms import built_in
from support.trainer_recipes import make_game

from collab.errors import RecipeError, TrainingError
from collab.recipe import Recipe, load_recipe
from collab.trainers.credit.games import GameModels, paper_game, sample
from collab.trainers.credit.group import Group, make_group
from collab.trainers.credit.shape import Shape


def check(recipe: Recipe) -> None:
    assert recipe.trainer is not None
    built_in("maac").check(recipe, recipe.trainer)


def zero_sum_group() -> Group:
    """A group in which one agent wins what the other loses."""
    group = sample(paper_game(), 4, np.random.default_rng(0))
    first, second = group.agents
    won = {node: rewards[first] for node, rewards in group.rewards.items()}
    shape = Shape("chains", 4, 1)
    return make_group(
        group.episodes, group.agents, lambda n: {first: won[n], second: -won[n]}, shape
    )


def test_a_zero_sum_game_is_refused() -> None:
    recipe = load_recipe("kuhn", task="kuhn", trainer={"extends": "rae"})
    with pytest.raises(RecipeError, match="zero-sum game 'kuhn'"):
        check(recipe)


def test_local_parts_are_refused(tmp_path: Path) -> None:
    recipe = make_game(Path("model"), tmp_path, local_parts={"a": ["a_left"]})
    with pytest.raises(RecipeError, match="local_parts gives each agent its own return"):
        check(recipe)


def test_unequal_rewards_of_a_game_are_refused_while_training() -> None:
    async def credit() -> None:
        maac = built_in("maac")
        await maac.open(GameModels(128))
        await maac.credit([zero_sum_group()])

    with pytest.raises(TrainingError, match=r"earned different ones \(\w+ \S+, \w+ \S+\); set"):
        asyncio.run(credit())
