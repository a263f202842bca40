"""Monte-Carlo values of states: what they pay for, and that they leave the gradient as it is."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.rule_runs import check_resume
from support.trainer_recipes import make_game

from collab.errors import RecipeError
from collab.recipe import Recipe, load_recipe
from collab.records import read_episodes
from collab.trainers.credit.games import Game, estimate, expectation, gradient, sample
from collab.trainers.credit.shape import Further, Shape
from collab.trainers.credit.shaped import Shaped, valued
from collab.trainers.training.check import check_recipe


def a_game(*, discount: float = 1.0, ends: bool = False) -> Game:
    """Two turns; the second one's state is what b did in the first."""
    rng = np.random.default_rng(7)
    logits = {(a, t, s): rng.normal(size=2) for a in "ab" for t, s in ((0, 0), (1, 0), (1, 1))}
    return Game(
        ("a", "b"),
        (rng.normal(size=(2, 2)), rng.normal(size=(2, 2))),
        logits,
        states=np.array([[0, 1], [0, 1]]),
        solved=np.array([[ends, False], [False, False]]),
        discount=discount,
    )


def monte_carlo(continuations: int = 1, rule: str = "marloo") -> Shaped:
    return Shaped(rule=rule, potential="continuations", continuations=continuations)


def shape(size: int, continuations: int = 1) -> Shape:
    return Shape("chains", size, 2, further=Further(continuations=continuations))


@pytest.mark.parametrize(("discount", "ends"), [(0.8, False), (1.0, True)])
def test_the_gradient_stays_exactly(discount: float, ends: bool) -> None:
    game = a_game(discount=discount, ends=ends)
    rule = monte_carlo(rule="mareinforce" if ends else "marloo")
    found = asyncio.run(expectation(game, rule, 2, shape=shape(2)))
    for agent, true in gradient(game).items():
        assert found[agent] == pytest.approx(true, abs=1e-12)


def test_the_gradient_has_less_noise_where_much_is_still_to_come() -> None:
    game = a_game()
    game = replace(game, rewards=(game.rewards[0], 4 * game.rewards[1]))
    found = asyncio.run(estimate(game, monte_carlo(4), groups=250, group_size=3, shape=shape(3, 4)))
    plain = asyncio.run(estimate(game, Shaped(rule="marloo", weight=0.0), groups=250, group_size=3))
    for agent in game.agents:
        assert found.errors(agent) < 3
        assert found.variance[agent] < 0.85 * plain.variance[agent]


def test_a_turn_is_paid_for_what_it_made_of_the_state() -> None:
    game = a_game(discount=0.5)
    group = sample(game, 3, np.random.default_rng(0), shape=shape(3, 2))
    found = valued(group)
    for n in range(3):
        own = [f for f in group.further if f.of == (n, 0)]
        assert [f.episode.further for f in own] == ["continuation"] * 2
        assert all(f.episode.turns[0] is group.episodes[n].turns[0] for f in own)
        worth = sum(f.rewards[1]["a"] for f in own) / 2
        first, second = (group.rewards[n, turn]["a"] for turn in (0, 1))
        assert found.returns[n, 0]["a"] == pytest.approx(first + 0.5 * worth)
        assert found.returns[n, 1]["a"] == pytest.approx(second - worth)


def test_a_state_whose_continuations_were_lost_goes_by_what_was_played() -> None:
    group = sample(a_game(), 3, np.random.default_rng(0), shape=shape(3))
    less = replace(group, further=tuple(f for f in group.further if f.of[0] != 1))
    found = valued(less)
    assert found.returns[1, 0]["a"] == pytest.approx(group.returns[1, 0]["a"])
    others = [f.rewards[1]["a"] for f in less.further]
    baseline = sum(others) / 2
    assert found.returns[1, 1]["a"] == pytest.approx(group.rewards[1, 1]["a"] - baseline)


def two_turn_recipe(model: Path, folder: Path, **trainer: Any) -> Recipe:
    recipe = make_game(model, folder, **trainer)
    team = recipe.team.model_copy(update={"turns": 2})
    return recipe.model_copy(update={"team": team})


def test_it_trains_by_its_file_and_goes_on_bit_by_bit(tiny_words: Path, tmp_path: Path) -> None:
    shipped = load_recipe("coding", task="humaneval", trainer="shaped-monte-carlo").trainer
    assert shipped is not None
    options = {"group_size": 3, "tasks_per_step": 1, "steps": 3, "checkpoint_every": 1}
    algorithm = shipped.algorithm.model_dump()
    recipe = two_turn_recipe(tiny_words, tmp_path, algorithm=algorithm, **options)
    rows = check_resume(algorithm, tiny_words, tmp_path, recipe=recipe)
    assert all(row["episodes"] == 3 + 3 * 4 for row in rows)
    assert any(row["gradient_norm/a"] > 0 for row in rows)
    played = [e for e in read_episodes(tmp_path / "whole") if e.group == 0]
    own = {e.sample: e for e in played if not e.further}
    assert sorted(own) == [0, 1, 2]
    for number, again in enumerate(e for e in played if e.further == "continuation"):
        assert again.turns[0] == own[number // 4].turns[0]
    said = {e.turns[1].decisions[0].action.token_ids for e in played}
    assert len(said) > 3, "they are drawn anew"
    returns = [e.joint_return or 0.0 for e in own.values()]
    assert rows[0]["return/mean"] == pytest.approx(sum(returns) / 3)


@pytest.mark.parametrize(
    ("options", "trainer", "told"),
    [
        ({"weight": 0.5}, {}, "leave weight at 1"),
        ({"continuations": 0}, {}, "1 or more"),
        ({"potential": "critic"}, {}, "'artefact' or 'continuations'"),
        ({}, {"turn_structure": "tree"}, "set turn_structure to 'chains'"),
    ],
)
def test_what_would_be_wrong_is_refused(
    tiny_words: Path, tmp_path: Path, options: Any, trainer: Any, told: str
) -> None:
    algorithm = {"use": "shaped", "options": {"potential": "continuations", **options}}
    with pytest.raises(RecipeError, match=told):
        check_recipe(two_turn_recipe(tiny_words, tmp_path, algorithm=algorithm, **trainer))
