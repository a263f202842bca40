"""MADPO: its step is that of the loss, and its pairs are fair to each agent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.rule_runs import check_resume
from support.trainer_recipes import make_game

from collab.errors import RecipeError
from collab.records import Action
from collab.trainers.credit import algorithm_for
from collab.trainers.credit.games import (
    Game,
    GameModels,
    additive,
    one_turn,
    sample,
    sequential_code,
)
from collab.trainers.credit.games.estimate import gradient_of
from collab.trainers.credit.games.known import logits
from collab.trainers.credit.group import Group, Weights
from collab.trainers.credit.madpo import MADPO, best_pairs, chance_of_losing, loss_of

REFERENCE = (0.6, 0.1, 0.3)


class Moved(GameModels):
    """Policies that have moved away from a reference, in which all actions have those chances."""

    async def logprobs(
        self, agent: str, actions: Sequence[Action], *, reference: bool = False
    ) -> list[tuple[float, ...]]:
        if not reference:
            return await super().logprobs(agent, actions)
        return [(log(REFERENCE[action.token_ids[0] % 3]),) for action in actions]


def weigh(group: Group, **options: Any) -> Weights:
    async def ask() -> Weights:
        rule = MADPO(**options)
        await rule.open(Moved())
        [weights] = await rule.credit([group])
        return weights

    return asyncio.run(ask())


def a_group(game: Game, size: int, seed: int = 0) -> Group:
    return sample(game, size, np.random.default_rng(seed))


def drawn(group: Group, agent: str) -> list[int]:
    return [
        e.turns[0].decisions[group.agents.index(agent)].action.token_ids[0] for e in group.episodes
    ]


def dpo(game: Game, group: Group, beta: float, pairs: int) -> dict[str, torch.Tensor]:
    """The downward gradient of the loss as the papers write it, by autograd on the logits."""
    tables = {a: torch.tensor(game.logits[a, 0, 0], requires_grad=True) for a in game.agents}
    reference = torch.tensor(REFERENCE, dtype=torch.float64).log()
    rewards = [group.rewards[g, 0][game.agents[0]] for g in range(len(group.episodes))]
    order = [
        (i, j) for i in range(len(rewards)) for j in range(len(rewards)) if rewards[i] > rewards[j]
    ]
    order.sort(key=lambda pair: (rewards[pair[1]] - rewards[pair[0]], min(pair), max(pair)))
    losses = []
    for win, lose in order[:pairs]:
        ratios = []
        for agent, table in tables.items():
            actions = drawn(group, agent)
            ratio = table.log_softmax(-1) - reference[: len(table)]
            ratios.append(ratio[actions[win]] - ratio[actions[lose]])
        losses.append(-torch.nn.functional.logsigmoid(beta * torch.stack(ratios).sum()))
    found = torch.autograd.grad(torch.stack(losses).mean(), list(tables.values()))
    return {agent: -gradient for agent, gradient in zip(tables, found, strict=True)}


@pytest.mark.parametrize("pairs", [1, 4, 100])
@pytest.mark.parametrize("seed", range(4))
def test_of_one_agent_its_gradient_is_that_of_dpo(pairs: int, seed: int) -> None:
    game = one_turn([1.0, 5.0, 2.0], [0.2, 0.3, 0.5])
    group = a_group(game, 6, seed)
    found = gradient_of(game, group, weigh(group, beta=0.7, pairs=pairs))
    assert found["a"] == pytest.approx(dpo(game, group, 0.7, pairs)["a"].numpy(), abs=1e-12)
    assert np.abs(found["a"]).max() > 0.01


def test_pairs_as_played_have_the_joint_margin() -> None:
    """An agent that chose another's turn out of itself: the joint response is one of DPO's."""
    game = one_turn([[1.0, 5.0], [2.0, 0.5]], [0.2, 0.8], [0.5, 0.5])
    seen = replace(
        game,
        sees={"b": ("a",)},
        logits={**game.logits, ("b", 0, 0): np.tile(logits([0.5, 0.5]), (2, 1))},
    )
    group = a_group(seen, 5, seed=2)
    found = weigh(group, beta=0.7, pairs=3)
    wanted = dpo(game, group, 0.7, 3)
    as_if_parallel = gradient_of(game, replace_prompts(group), found)
    for agent in game.agents:
        assert as_if_parallel[agent] == pytest.approx(wanted[agent].numpy(), abs=1e-12)


def replace_prompts(group: Group) -> Group:
    """The group as if nobody had seen anybody, whose tables have one row."""
    episodes = []
    for episode in group.episodes:
        [turn] = episode.turns
        blind = [
            d.model_copy(update={"action": d.action.model_copy(update={"prompt_ids": (0, 0)})})
            for d in turn.decisions
        ]
        blinded = turn.model_copy(update={"decisions": tuple(blind)})
        episodes.append(episode.model_copy(update={"turns": (blinded,)}))
    return replace(group, episodes=tuple(episodes))


def test_swapping_win_and_lose_flips_the_sign() -> None:
    game = one_turn([[1.0, 5.0, 2.0], [0.0, 3.0, 9.0]], [0.4, 0.6], [0.2, 0.3, 0.5])
    flipped = replace(game, rewards=(-game.rewards[0],))
    group, other = a_group(game, 6), a_group(flipped, 6)
    found, opposite = weigh(group), weigh(other)
    alive = [key for key in found if found[key] != 0]
    assert alive
    assert all(np.sign(found[key]) == -np.sign(opposite[key]) for key in found)


def test_a_pair_with_equal_rewards_is_never_used() -> None:
    nodes = [(n, 0) for n in range(4)]
    pairs = best_pairs(nodes, [2.0, 2.0 + 1e-12, 1.0, 2.0], 10)
    assert {(pair.win, pair.lose) for pair in pairs} == {((n, 0), (2, 0)) for n in (0, 1, 3)}
    constant = one_turn(np.ones((2, 2)), [0.5, 0.5], [0.5, 0.5])
    assert set(weigh(a_group(constant, 8)).values()) == {0.0}


def test_the_largest_gaps_come_first() -> None:
    pairs = best_pairs([(n, 0) for n in range(5)], [0.0, 4.0, 1.0, 9.0, 2.0], 3)
    assert [pair.gap for pair in pairs] == [9.0, 8.0, 7.0]
    assert all(one.gap >= next_.gap for one, next_ in pairwise(pairs))


def test_an_agent_is_not_pushed_towards_what_lost_by_itself() -> None:
    """In an additive game the better of an agent's own responses wins, whoever the teammate is."""
    game, alpha = additive(), {"a": (0, 1, 3), "b": (5, -4)}
    for seed in range(20):
        group = a_group(game, 4, seed)
        for agent in game.agents:
            step = gradient_of(game, group, weigh(group, pairs=100))[agent]
            made = sorted(set(drawn(group, agent)), key=lambda action: alpha[agent][action])
            if len(made) > 1:
                assert step[made[-1]] > 0 > step[made[0]]


def test_on_a_sequential_team_nothing_is_crossed() -> None:
    game = sequential_code()
    rule = MADPO()
    group = replace(a_group(game, 5), ask=None)  # would raise if anything were scored

    async def ask() -> None:
        await rule.open(GameModels())
        await rule.credit([group])

    asyncio.run(ask())
    told = rule.measures()
    assert told["preferences/aux/crossed"] == told["preferences/main/crossed"] == 0
    assert told["preferences/aux/loss"] == pytest.approx(log(2))
    assert told["preferences/aux/pairs"] == 4


def test_the_loss_is_safe_for_large_margins() -> None:
    for margin in (-3.0, 0.0, 2.5):
        assert chance_of_losing(margin) == pytest.approx(1 / (1 + np.exp(margin)))
        assert loss_of(margin) == pytest.approx(np.log(1 + np.exp(-margin)))
    assert (loss_of(-1e4), loss_of(1e4)) == (1e4, 0.0)
    assert (chance_of_losing(-1e4), chance_of_losing(1e4)) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"inner_epochs": 2, "clip_ratio": 0.2}, "set inner_epochs to 1"),
        ({"normalise": "group"}, "set normalise to 'none'"),
        ({"token_weighting": "response_mean"}, "set token_weighting to 'sum'"),
        ({"group_size": 1}, "set group_size to 2 or more"),
        ({"curriculum": [{"steps": 1, "turns": 2}]}, "plays 2 turns"),
        ({"group_size": 80}, "lower trainer.group_size"),
    ],
)
def test_what_is_no_step_of_the_loss_is_refused(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    recipe = make_game(Path("model"), tmp_path, algorithm="madpo", **changes)
    assert recipe.trainer is not None
    algorithm = algorithm_for(recipe.trainer.algorithm)
    with pytest.raises(RecipeError, match=message):
        algorithm.check(recipe, recipe.trainer)


@pytest.mark.slow
def test_it_trains_and_goes_on_bit_by_bit(tiny_words: Path, tmp_path: Path) -> None:
    rows = check_resume("madpo", tiny_words, tmp_path)
    first, *_, last = (row for row in rows if row.get("preferences/b/pairs", 0) > 0)
    assert first["preferences/b/loss"] == pytest.approx(log(2), abs=1e-4)
    assert first["preferences/b/crossed"] == 1
    assert abs(last["preferences/b/margin"]) > 1e-4
