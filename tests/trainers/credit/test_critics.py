"""Critics: their inputs, the use of their values, and their training."""

import asyncio
from pathlib import Path

import numpy as np
import pytest
import torch
from support.algorithm_runs import check_resume
from support.algorithms import built_in
from support.shares import one_in
from support.trainer_recipes import make_game
from transformers import AutoModelForCausalLM

from collab.errors import RecipeError
from collab.trainers.credit.critics import IAC, MAAC, advantages, joint_history, own_history
from collab.trainers.credit.games import (
    Estimate,
    Game,
    GameModels,
    estimate,
    sequential_code,
    two_turns,
)
from collab.trainers.credit.games.game import play, random_draw
from collab.trainers.credit.group import Group
from collab.trainers.credit.head import Critic
from collab.trainers.learner.frozen_models import PolicyModels
from collab.trainers.learner.policy import open_policies


def run_estimate(game: Game, critic: IAC | MAAC, groups: int) -> Estimate:
    async def found() -> Estimate:
        await critic.open(GameModels())
        return await estimate(game, critic, groups=groups, group_size=1, groups_per_step=8)

    return asyncio.run(found())


@pytest.mark.parametrize(
    ("game", "kind"),
    [
        (two_turns(), IAC),
        (sequential_code(), MAAC),
        pytest.param(sequential_code(), IAC, marks=pytest.mark.slow),
        pytest.param(two_turns(), MAAC, marks=pytest.mark.slow),
    ],
)
def test_full_returns_give_an_unbiased_gradient_with_less_variance(
    game: Game, kind: type[IAC | MAAC]
) -> None:
    plain = asyncio.run(estimate(game, built_in("mareinforce"), groups=1000, group_size=1))
    found = run_estimate(game, kind(trace=1.0, rate=0.05), 1000)
    for agent in game.agents:
        assert found.errors(agent) < 3
        assert found.variance[agent] < 0.8 * plain.variance[agent]


def sample_group(game: Game, group_size: int = 2) -> Group:
    return play(game, group_size, random_draw(np.random.default_rng(3)))


def test_advantages_match_gae_by_hand() -> None:
    group = sample_group(two_turns())
    values = {(0, 0): 1.0, (0, 1): 2.0, (1, 0): 0.5, (1, 1): 0.25}
    reward = {node: group.rewards[node]["aux"] for node in values}
    one_step = advantages(group, "aux", values, trace=0.0)
    assert one_step[0, 1] == pytest.approx(reward[0, 1] - 2.0)
    assert one_step[0, 0] == pytest.approx(reward[0, 0] + 2.0 - 1.0)
    half = advantages(group, "aux", values, trace=0.5)
    assert half[0, 0] == pytest.approx(one_step[0, 0] + 0.5 * one_step[0, 1])
    full_trace = advantages(group, "aux", values, trace=1.0)
    assert full_trace[1, 0] == pytest.approx(group.returns[1, 0]["aux"] - 0.5)


def test_turn_without_the_agent_is_skipped() -> None:
    group = sample_group(two_turns())
    found = advantages(group, "aux", {(0, 1): 2.0, (1, 0): 0.5}, trace=0.0)
    assert set(found) == {(0, 1), (1, 0)}
    assert found[1, 0] == pytest.approx(group.returns[1, 0]["aux"] - 0.5)


def test_joint_history_excludes_what_agents_see_within_a_turn() -> None:
    group = sample_group(sequential_code())
    text = joint_history(group, (0, 0))
    assert "state 0, seen ()" in text
    assert "seen (" not in text.split("main:")[1]
    assert own_history(group, (0, 0), "main") != own_history(group, (0, 0), "aux")


def test_value_head_learns_and_resumes_from_its_state() -> None:
    histories, model = [(0,), (1,), (2,)], GameModels(3).base("a")
    critic, other = Critic(model, rate=0.1), Critic(model, rate=0.1)

    def learned(one: Critic, targets: list[float], times: int = 1) -> list[float]:
        for _ in range(times):
            asyncio.run(one.values(histories))
            one.learn(targets)
        return asyncio.run(one.values(histories))

    wanted = [1.0, -2.0, 5.0]
    assert learned(critic, wanted, times=200) == pytest.approx(wanted, abs=0.1)
    learned(other, [7.0, 7.0, 7.0])
    other.restore(critic.state())
    assert learned(other, [0.0] * 3) == learned(critic, [0.0] * 3)


def test_features_are_hidden_states_of_the_bare_base(tiny_words: Path, tmp_path: Path) -> None:
    recipe = make_game(tiny_words, tmp_path)
    trainer = recipe.trainer
    assert trainer is not None
    policies = open_policies(recipe, trainer)
    texts = [(1, 2, 3), (4,), (2, 2, 5, 6, 1)]

    async def read() -> torch.Tensor:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(1) as thread:
            models = PolicyModels(policies, trainer, thread)
            for parameter in policies.of("a").parameters.values():
                parameter.data.add_(0.3)
            found = await models.base("a").features(texts)
            assert models.base("a").encode("left")
            assert models.base("a").encode("")
        await policies.aclose()
        return found

    found = asyncio.run(read())
    plain = AutoModelForCausalLM.from_pretrained(tiny_words, dtype=torch.float32)
    for row, text in zip(found, texts, strict=True):
        with torch.no_grad():
            alone = plain.base_model(input_ids=torch.tensor([text])).last_hidden_state[0, -1]
        assert torch.allclose(row, alone, atol=1e-5)


@pytest.mark.parametrize("name", one_in(2, ["maac", "iac"]))
def test_critics_resume_bit_by_bit(name: str, tiny_words: Path, tmp_path: Path) -> None:
    rows = check_resume(name, tiny_words, tmp_path)
    assert any(key.startswith("critic/") and key.endswith("/loss") for key in rows[-1])


def test_critic_with_full_training_is_refused(tiny_words: Path, tmp_path: Path) -> None:
    recipe = make_game(tiny_words, tmp_path, algorithm="iac", policies="full")
    with pytest.raises(RecipeError, match=r"set trainer\.policies to 'adapters'"):
        check_resume("iac", tiny_words, tmp_path, recipe=recipe)
