"""What crossing tells besides credit: who decides the reward, and how much variance it saves."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from collab.recipe.base import Component
from collab.trainers.credit import Algorithm, algorithm_for
from collab.trainers.credit.games import (
    Game,
    additive,
    all_right,
    code_like,
    dummy,
    estimate,
    one_turn,
    only_tests,
    paper_game,
    sample,
    sequential_code,
    two_turns,
    word_pair,
)


def rule(name: str, **options: Any) -> Algorithm:
    return algorithm_for(Component(use=name, options=options))


def told(name: str, game: Game, size: int = 4, **options: Any) -> dict[str, float]:
    algorithm = rule(name, **options)
    asyncio.run(algorithm.credit([sample(game, size, np.random.default_rng(0))]))
    return dict(algorithm.measures())


def random_game(*shape: int, **fields: Any) -> Game:
    rng = np.random.default_rng(5)
    chances = [rng.dirichlet(np.ones(size)) for size in shape]
    game = one_turn(rng.normal(size=shape), *chances)
    return replace(game, empty=dict.fromkeys(game.agents, 0), **fields)


def test_who_decides_the_reward() -> None:
    found = told("cross", dummy(), 8)
    assert (found["credit/a/own"], found["credit/a/influence"]) == pytest.approx((0, 0), abs=1e-9)
    assert found["credit/b/own"] == pytest.approx(1)
    found = told("cross", additive(), 8)
    assert found["credit/interaction"] == pytest.approx(0, abs=1e-9)
    assert found["credit/a/own"] + found["credit/b/own"] == pytest.approx(1)


def test_the_shares_of_the_variance_are_unbiased() -> None:
    """The weak team's are .20, .62 and .18, by its table."""
    game, rng = code_like(), np.random.default_rng(0)
    algorithm = rule("cross", shifts=3)
    asyncio.run(algorithm.credit([sample(game, 8, rng) for _ in range(250)]))
    found = algorithm.measures()
    assert found["credit/aux/own"] == pytest.approx(0.20, abs=0.03)
    assert found["credit/main/own"] == pytest.approx(0.62, abs=0.03)
    assert found["credit/interaction"] == pytest.approx(0.18, abs=0.03)


def test_pure_interaction_is_influence_without_a_share_of_ones_own() -> None:
    rng = np.random.default_rng(0)
    algorithm = rule("cross")
    asyncio.run(algorithm.credit([sample(word_pair("xor"), 8, rng) for _ in range(100)]))
    assert algorithm.measures()["credit/a/own"] == pytest.approx(0, abs=0.05)
    assert algorithm.measures()["credit/a/influence"] == pytest.approx(1, abs=0.05)


def test_the_form_is_told() -> None:
    found = told("cross", sequential_code())
    assert (found["credit/aux/alone"], found["credit/main/swapped"]) == (1.0, 1.0)
    found = told("cross", two_turns())
    assert (found["credit/aux/crossed"], found["credit/aux/swapped"]) == (0.5, 0.5)


def test_removal_tells_what_an_answer_added() -> None:
    game = random_game(2, 2)
    game = replace(game, rewards=(np.array([[0.0, 0.0], [1.0, 1.0]]),))
    group = sample(game, 4, np.random.default_rng(0))
    algorithm = rule("removal")
    asyncio.run(algorithm.credit([group]))
    second = np.mean([e.turns[0].decisions[0].action.token_ids[0] for e in group.episodes])
    assert algorithm.measures()["credit/a/contribution"] == pytest.approx(second)
    assert algorithm.measures()["credit/b/contribution"] == pytest.approx(0)


VARIANCE = [
    # game, G, and relative to leave-one-out the variance of COMA, Shapley, CROSS: by agent
    (paper_game(), 4, [(0.40, 0.40), (0.39, 0.39), (0.38, 0.38)]),
    (paper_game(0.2, 0.2), 8, [(0.87, 0.89), (0.84, 0.85), (0.83, 0.84)]),
    (word_pair("and", 0.2, 0.2), 4, [(0.70, 0.70), (0.48, 0.48), (0.40, 0.40)]),
    (code_like(), 4, [(0.38, 0.79), (0.28, 0.69), (0.25, 0.66)]),
    (only_tests(), 8, [(0.62, 0.82), (0.38, 0.61), (0.29, 0.54)]),
]


@pytest.mark.slow
@pytest.mark.parametrize("row", range(len(VARIANCE)))
def test_the_variance_of_the_table(row: int) -> None:
    game, size, expected = VARIANCE[row]
    measured = partial(estimate, groups=1000, group_size=size)
    base = asyncio.run(measured(game, rule("marloo")))
    for name, ratios in zip(("coma", "shapley", "cross"), expected, strict=True):
        found = asyncio.run(measured(game, rule(name)))
        for agent, ratio in zip(game.agents, ratios, strict=True):
            assert found.variance[agent] / base.variance[agent] == pytest.approx(ratio, rel=0.1)
            assert found.errors(agent) < 3


@pytest.mark.slow
def test_the_variance_of_three_agents() -> None:
    base = asyncio.run(estimate(all_right(), rule("marloo"), groups=1000, group_size=8))
    full = asyncio.run(
        estimate(all_right(), rule("cross", shifts="all"), groups=1000, group_size=8)
    )
    assert full.variance["a"] / base.variance["a"] == pytest.approx(0.26, rel=0.1)
    assert (base.dead["a"], full.dead["a"]) == pytest.approx((0.59, 0.05), abs=0.02)


def test_crossing_has_less_variance_at_equal_tokens() -> None:
    measured = partial(estimate, groups=600, group_size=4)
    base = asyncio.run(measured(code_like(), rule("marloo")))
    found = asyncio.run(measured(code_like(), rule("cross")))
    assert found.variance["aux"] / base.variance["aux"] == pytest.approx(0.25, abs=0.04)
    assert found.variance["main"] / base.variance["main"] == pytest.approx(0.66, abs=0.08)
