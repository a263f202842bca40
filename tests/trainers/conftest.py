"""Small teams for training."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from support.gradients import trainer_of
from support.trainer_recipes import make_game

from collab.recipe import Recipe
from collab.trainers.learner.learner import Learner
from collab.trainers.learner.policy import Policies, open_policies
from collab.trainers.training.check import check_recipe


@pytest.fixture
def game(tiny_words: Path, tmp_path: Path) -> Recipe:
    """Two agents say one word each and earn points for certain words."""
    return make_game(tiny_words, tmp_path)


@pytest.fixture
def learner(game: Recipe) -> Iterator[Learner]:
    spec = check_recipe(game)
    policies = open_policies(game, spec)
    yield Learner(policies, spec, total_steps=4)
    asyncio.run(policies.aclose())


@pytest.fixture
def policies(
    tiny_words: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Policies]:
    """Open two adapters in float64 and move them away from their starting values."""
    recipe = make_game(tiny_words, tmp_path, **request.param)
    opened = open_policies(recipe, trainer_of(recipe))
    opened.by_name["a"].engine.module.double()
    generator = torch.Generator().manual_seed(3)
    for policy in opened:
        for parameter in policy.parameters.values():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.data.add_(0.2 * noise)
    yield opened
    asyncio.run(opened.aclose())
