"""PMIC: its bounds tell what depends on what, and its bonus is paid before it is learned."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.rule_runs import check_resume
from support.trainer_recipes import make_game

from collab.errors import RecipeError
from collab.trainers.credit.games import Game, GameModels, sample, sequential_code, two_turns
from collab.trainers.credit.group import Group, Weights
from collab.trainers.credit.magrpo import marloo
from collab.trainers.credit.networks import Bound, Lower, Memory, Upper
from collab.trainers.credit.pmic import PMIC, whole_returns
from collab.trainers.credit.shape import Shape
from collab.trainers.training.check import check_recipe


def pairs(dependence: float, n: int = 120, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Histories, and joint actions that follow them with that correlation."""
    generator = torch.Generator().manual_seed(seed)
    histories, noise = (torch.randn(n, 4, generator=generator) for _ in range(2))
    return histories, dependence * histories + (1 - dependence**2) ** 0.5 * noise


def fitted(bound: Bound, dependence: float) -> None:
    for seed in range(30):
        assert bound.fit(*pairs(dependence, seed=seed), 4)


def test_the_lower_bound_grows_with_the_dependence() -> None:
    found = {}
    for dependence in (0.0, 0.95):
        bound = Lower(4, 4)
        fitted(bound, dependence)
        found[dependence] = -float(bound.loss(*pairs(dependence, seed=99)).detach())
    independent = -2 * np.log(2)
    assert found[0.0] == pytest.approx(independent, abs=0.1)
    assert found[0.95] > independent + 0.5


def test_a_pair_that_belongs_together_earns_more_than_one_that_does_not() -> None:
    bound = Lower(4, 4)
    fitted(bound, 0.95)
    histories, actions = pairs(0.95, seed=99)
    together = bound.each(histories, actions)
    assert together.max() <= 0
    assert together.mean() > bound.each(histories, actions.roll(1, 0)).mean() + 0.5


def test_the_upper_bound_is_that_of_club() -> None:
    """Of Gaussians it is rho^2 / (1 - rho^2), and never less than there is."""
    for dependence in (0.0, 0.8):
        bound = Upper(4, 4)
        fitted(bound, dependence)
        histories, actions = pairs(dependence, n=400, seed=99)
        found = float(bound.each(histories, actions, actions).mean().detach())
        assert found == pytest.approx(dependence**2 / (1 - dependence**2), abs=0.25)
        assert found > -0.5 * np.log(1 - dependence**2) - 0.05


def test_too_few_samples_teach_nothing() -> None:
    bound = Lower(4, 4)
    before = bound.state()["network"]
    assert not bound.fit(*pairs(0.5, n=3), 4)
    after = bound.state()["network"]
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_the_memory_keeps_the_newest_and_tells_the_best_from_the_worst() -> None:
    memory = Memory(10)
    rows = torch.arange(12.0)[:, None]
    memory.add(rows[:6], rows[:6], [100.0, -100.0, 1.0, 2.0, 3.0, 4.0])
    memory.add(rows[6:], rows[6:], [5.0, 6.0, 7.0, 8.0, 9.0, 10.0])
    assert memory.best(0.3)[0][:, 0].tolist() == [9.0, 10.0, 11.0]
    assert memory.worst(0.3)[1][:, 0].tolist() == [2.0, 3.0, 4.0]
    equal = Memory(10)
    equal.add(rows, rows, [1.0] * 12)
    assert len(equal.best(0.5)[0]) == len(equal.worst(0.5)[0]) == 0


def steps_of(game: Game, n: int) -> list[list[Group]]:
    rng = np.random.default_rng(0)
    return [[sample(game, 6, rng) for _ in range(2)] for _ in range(n)]


def run(
    steps: Sequence[Sequence[Group]], **options: Any
) -> tuple[list[list[Weights]], dict[str, float]]:
    async def ask() -> tuple[list[list[Weights]], dict[str, float]]:
        rule = PMIC(**options)
        await rule.open(GameModels(512))
        return [await rule.credit(groups) for groups in steps], rule.measures()

    return asyncio.run(ask())


@pytest.mark.parametrize("game", [two_turns(), sequential_code()], ids=["two turns", "sequential"])
def test_without_a_bonus_it_is_marloo(game: Game) -> None:
    steps = steps_of(game, 6)
    waiting, told = run(steps, warmup=4)
    assert told["pmic/best"] > 3
    for found, same in ((waiting[:4], True), (waiting[5:], False)):
        given = [w for weights in found for w in weights]
        groups = [g for step in (steps[:4] if same else steps[5:]) for g in step]
        as_marloo = [
            g == pytest.approx(dict(marloo(x))) for g, x in zip(given, groups, strict=True)
        ]
        assert all(as_marloo) if same else not any(as_marloo)
    for weights, groups in zip(run(steps, warmup=0, alpha=0, beta=0)[0], steps, strict=True):
        assert weights == [pytest.approx(dict(marloo(group))) for group in groups]


@pytest.mark.parametrize("structure", ["chains", "tree"])
def test_all_turns_of_an_episode_are_as_good_as_the_episode(structure: Any) -> None:
    game = replace(two_turns(), discount=0.5)
    shape = Shape(structure, 3, game.turns)
    group = sample(game, 3, np.random.default_rng(1), shape=shape)
    whole = whole_returns(group)
    for node, following in group.children.items():
        if following:
            mean = sum(whole[child] for child in following) / len(following)
            assert whole[node] == pytest.approx(mean)
        if node[1] == 0:
            assert whole[node] == group.returns[node]["aux"]


def test_a_constant_more_changes_no_weight() -> None:
    game = two_turns()
    higher = replace(game, rewards=tuple(table + 8 for table in game.rewards))
    found, other = (run(steps_of(g, 6), warmup=1)[0][-1] for g in (game, higher))
    for weights, same in zip(found, other, strict=True):
        assert weights == pytest.approx(same, abs=1e-4)


def test_a_step_is_paid_before_it_is_learned_from() -> None:
    steps = steps_of(two_turns(), 5)
    known = run(steps, warmup=1)[0][-1][0]
    alone = run([*steps[:4], steps[4][:1]], warmup=1)[0][-1][0]
    assert known == pytest.approx(alone, abs=1e-6)


@pytest.mark.parametrize("options", [{"share": 0.6}, {"alpha": -1.0}, {"beta": -0.1}])
def test_options_that_make_no_sense_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(RecipeError, match="pmic"):
        PMIC(**options)  # type: ignore[arg-type]


def test_rewards_that_are_not_as_played_are_refused(tmp_path: Path) -> None:
    recipe = make_game(Path("model"), tmp_path, algorithm="pmic", turn_structure="greedy")
    assert recipe.trainer is not None
    with pytest.raises(RecipeError, match="set turn_structure to"):
        PMIC().check(recipe, recipe.trainer)


def test_it_trains_and_goes_on_bit_by_bit(tiny_words: Path, tmp_path: Path) -> None:
    algorithm = {"use": "pmic", "options": {"warmup": 1, "alpha": 1.0}}
    check_recipe(make_game(tiny_words, tmp_path, algorithm=algorithm))
    rows = check_resume(algorithm, tiny_words, tmp_path, group_size=8)
    assert rows[0]["pmic/bonus_std"] == 0
    assert rows[-1]["pmic/bonus_std"] > 0


@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e6 + 0.1])
def test_equal_returns_are_neither_the_best_nor_the_worst(value: float) -> None:
    memory = Memory(64)
    for _ in range(7):
        memory.add(torch.zeros(3, 2), torch.zeros(3, 2), [value] * 3)
    assert [len(found) for found in (*memory.best(0.3), *memory.worst(0.3))] == [0] * 4
