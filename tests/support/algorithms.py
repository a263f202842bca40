"""Credit algorithms by name, on small games."""

import asyncio
from typing import Any

import pytest

from collab.recipe.base import Component
from collab.trainers.credit import Algorithm, Group, Weights, algorithm_for
from collab.trainers.credit.games import Game, expectation, gradient


def built_in(name: str, **options: Any) -> Algorithm:
    return algorithm_for(Component(use=name, options=options))


def weights_of(name: str, group: Group, **options: Any) -> Weights:
    [weights] = asyncio.run(built_in(name, **options).credit([group]))
    return weights


def check_exact(
    game: Game, algorithm: Algorithm, size: int, *, share: float = 1.0, **options: Any
) -> None:
    """The algorithm's mean over all groups is `share` of the gradient."""
    mean = asyncio.run(expectation(game, algorithm, size, **options))
    for agent, true in gradient(game).items():
        assert mean[agent] == pytest.approx(share * true, abs=1e-12), agent
