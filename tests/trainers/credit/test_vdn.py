"""VDN: the parts of a return are what each agent's own response is worth."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.rule_runs import check_resume
from support.trainer_recipes import make_game

from collab.errors import RecipeError
from collab.recipe import Recipe
from collab.trainers.credit.games import (
    Estimate,
    Game,
    GameModels,
    additive,
    code_like,
    estimate,
    sample,
    two_turns,
    word_pair,
)
from collab.trainers.credit.group import Group, Weights
from collab.trainers.credit.magrpo import marloo
from collab.trainers.credit.vdn import VDN, FitQuality
from collab.trainers.training.check import check_recipe

pytestmark = pytest.mark.slow

ALPHA = {"a": (0.0, 1.0, 3.0), "b": (5.0, -4.0)}


def groups_of(game: Game, n: int, seed: int) -> list[Group]:
    rng = np.random.default_rng(seed)
    return [sample(game, 6, rng) for _ in range(n)]


async def learned(game: Game, steps: int, **options: Any) -> VDN:
    rule = VDN(**{"rate": 0.05, **options})
    await rule.open(GameModels(128))
    for step in range(steps):
        await rule.credit(groups_of(game, 4, step))
    return rule


def drawn(group: Group, agent: str) -> list[int]:
    place = group.agents.index(agent)
    return [e.turns[0].decisions[place].action.token_ids[0] for e in group.episodes]


def loo(values: Sequence[float]) -> list[float]:
    return [v - (sum(values) - v) / (len(values) - 1) for v in values]


def test_in_an_additive_game_each_is_paid_for_its_own_part() -> None:
    async def found() -> tuple[VDN, Group, Weights]:
        rule = await learned(additive(), 150)
        [group] = groups_of(additive(), 1, 999)
        return rule, group, (await rule.credit([group]))[0]

    rule, group, weights = asyncio.run(found())
    assert rule.measures()["parts/trust"] > 0.98
    for agent, worth in ALPHA.items():
        own = loo([worth[action] for action in drawn(group, agent)])
        assert [weights[g, 0, agent] for g in range(6)] == pytest.approx(own, abs=0.25)


def test_what_is_all_interaction_is_left_to_the_return() -> None:
    """At XOR no response has a worth of its own: the heads are not trusted, and they are flat."""

    async def found() -> None:
        rule = await learned(word_pair("xor"), 60)
        [group] = groups_of(word_pair("xor"), 1, 999)
        [weights] = await rule.credit([group])
        trust = rule.measures()["parts/trust"]
        assert trust < 0.1
        plain = marloo(group)
        for key, weight in weights.items():
            assert weight == pytest.approx((1 - trust) * float(plain[key]), abs=0.05)  # type: ignore[arg-type]

    asyncio.run(found())


def test_nothing_is_trusted_before_it_was_held_out() -> None:
    async def found() -> None:
        rule = VDN()
        await rule.open(GameModels())
        groups = groups_of(two_turns(), 2, 0)
        weights = await rule.credit(groups)
        for group, given in zip(groups, weights, strict=True):
            assert given == pytest.approx(dict(marloo(group)))

    asyncio.run(found())


def test_a_constant_more_changes_nothing_that_is_compared() -> None:
    held, more = FitQuality(), FitQuality()
    held.add([1.0, 2.0, 4.0], [1.0, 3.0, 4.0])
    more.add([8.0, 9.0, 11.0], [101.0, 103.0, 104.0])
    assert held.share == pytest.approx(more.share)
    assert 0 < held.share < 1
    held.add([100.0, 0.0], [0.0, 1.0])
    assert held.share == 0


def test_the_gradient_is_that_of_the_return_with_less_noise() -> None:
    game = code_like(variants=1, noise=0.0)

    async def found() -> tuple[Estimate, Estimate]:
        rule = await learned(game, 100)
        own = await estimate(game, rule, groups=600, group_size=8, groups_per_step=4)
        from collab.trainers.credit.base import PerGroup

        plain = await estimate(game, PerGroup(marloo), groups=600, group_size=8)
        return own, plain

    own, plain = asyncio.run(found())
    for agent in game.agents:
        assert own.errors(agent) < 3
        assert own.cosine[agent] > plain.cosine[agent]
    assert own.variance["aux"] < 0.6 * plain.variance["aux"]


def recipe_of(tmp_path: Path, trainer: dict[str, Any], **team: Any) -> Recipe:
    data = make_game(Path("model"), tmp_path, **{"algorithm": "vdn", **trainer}).model_dump()
    data["team"] |= team
    return Recipe.model_validate(data)


@pytest.mark.parametrize(
    ("trainer", "team", "message"),
    [
        ({}, {"protocol": "sequential"}, "cannot separate the part of 'b' from that of 'a'"),
        ({"local_parts": {"a": ["a_left"]}}, {}, "leave out local_parts"),
    ],
)
def test_what_cannot_be_taken_apart_is_refused(
    trainer: dict[str, Any], team: dict[str, Any], message: str, tmp_path: Path
) -> None:
    recipe = recipe_of(tmp_path, trainer, **team)
    assert recipe.trainer is not None
    with pytest.raises(RecipeError, match=message):
        VDN().check(recipe, recipe.trainer)


def test_it_trains_and_goes_on_bit_by_bit(tiny_words: Path, tmp_path: Path) -> None:
    check_recipe(make_game(tiny_words, tmp_path, algorithm="vdn"))
    rows = check_resume({"use": "vdn", "options": {"rate": 0.05}}, tiny_words, tmp_path)
    assert all(row["parts/loss"] > 0 for row in rows)
    assert rows[0]["parts/trust"] == 0
