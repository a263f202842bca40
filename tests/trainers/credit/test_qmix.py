"""QMIX: its mixer is monotone and learns what no sum can tell; its bias is said."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest
import torch
from support.rule_runs import check_resume
from support.trainer_recipes import make_game

from collab.errors import RecipeError
from collab.recipe import Recipe
from collab.trainers.credit.factored import QMIX, VDN
from collab.trainers.credit.games import Game, GameModels, additive, estimate, sample, word_pair
from collab.trainers.credit.group import Group
from collab.trainers.credit.networks import Mixer
from collab.trainers.training.check import check_recipe


def groups_of(game: Game, n: int, seed: int) -> list[Group]:
    rng = np.random.default_rng(seed)
    return [sample(game, 6, rng) for _ in range(n)]


async def learned(rule: QMIX | VDN, game: Game, steps: int) -> float:
    """The squared error that is left."""
    await rule.open(GameModels())
    for step in range(steps):
        await rule.credit(groups_of(game, 4, step))
    return rule.measures()["parts/loss"]


def test_no_part_can_make_the_whole_less() -> None:
    generator = torch.Generator().manual_seed(0)
    mixer = Mixer(6, 3, rate=0.1)
    with torch.no_grad():
        for parameter in mixer.network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    values, states = (torch.randn(50, n, generator=generator) for n in (3, 6))
    slopes = mixer.slopes(values, states)
    assert slopes.min() >= 0
    assert slopes.max() > 0.1
    step = torch.tensor([1e-3, 0.0, 0.0])
    wider = (mixer(values + step, states) - mixer(values - step, states)) / 2e-3
    assert wider.detach().numpy() == pytest.approx(slopes[:, 0].numpy(), abs=0.02)


@pytest.mark.slow
def test_it_tells_returns_that_no_sum_can() -> None:
    game = word_pair("and", 0.5, 0.5)
    mixed = asyncio.run(learned(QMIX(rate=0.03), game, 100))
    added = asyncio.run(learned(VDN(rate=0.03), game, 100))
    assert mixed < 0.02
    assert added > 0.05


def test_in_an_additive_game_its_weights_point_along_the_gradient() -> None:
    async def found() -> dict[str, float]:
        rule = QMIX(rate=0.03)
        await learned(rule, additive(), 60)
        return (await estimate(additive(), rule, groups=60, group_size=8)).cosine

    assert min(asyncio.run(found()).values()) > 0.8


def test_no_agent_is_left_without_a_slope_where_rewards_are_rare() -> None:
    async def found() -> dict[str, float]:
        rule, game = QMIX(rate=0.03), word_pair("and", 0.2, 0.2)
        await rule.open(GameModels(hidden_size=1536))
        await estimate(game, rule, groups=200, group_size=8, groups_per_step=8, seed=1)
        return (await estimate(game, rule, groups=40, group_size=8, groups_per_step=8)).cosine

    assert min(asyncio.run(found()).values()) > 0.7


def test_its_bias_is_said_before_and_while_it_trains(tmp_path: Path) -> None:
    recipe = make_game(Path("model"), tmp_path, algorithm="qmix")
    assert recipe.trainer is not None
    rule = QMIX()
    assert "biased" in rule.describe(recipe, recipe.trainer)[0]
    asyncio.run(learned(rule, additive(), 1))
    assert rule.measures()["parts/biased"] == 1


def test_a_sequential_team_is_refused(tmp_path: Path) -> None:
    data = make_game(Path("model"), tmp_path, algorithm="qmix").model_dump()
    data["team"] |= {"protocol": "sequential"}
    recipe = Recipe.model_validate(data)
    assert recipe.trainer is not None
    with pytest.raises(RecipeError, match="algorithm 'qmix' cannot tell the part of 'b'"):
        QMIX().check(recipe, recipe.trainer)


def test_it_trains_and_goes_on_bit_by_bit(tiny_words: Path, tmp_path: Path) -> None:
    check_recipe(make_game(tiny_words, tmp_path, algorithm="qmix"))
    rows = check_resume({"use": "qmix", "options": {"rate": 0.05}}, tiny_words, tmp_path)
    assert all(row["parts/biased"] == 1 for row in rows)
    assert rows[-1]["groups/dead"] < 1
