"""Every adapter's gradient matches the objective computed naively, token by token."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.gradients import check, compare, trainer_of, with_sampler
from support.shares import one_in
from support.tiny_words import CHAT, TOOL_CHAT, save_tiny
from support.trainer_recipes import WORDS, make_game

from collab.models.local.engine import TransformersEngine
from collab.recipe import Recipe
from collab.records import Episode, Problem, Sampling
from collab.runtime import Session
from collab.trainers.learner.policy import Policies, open_policies

TRUNCATED = {
    "top_p": {"a": Sampling(top_p=0.8), "b": Sampling(temperature=0.6, top_p=0.5)},
    "top_k": {"a": Sampling(top_k=3), "b": Sampling(temperature=2.0, top_k=6, top_p=0.7)},
}

OPTIONS: dict[str, dict[str, Any]] = {
    "paper": {},
    "marloo": {"algorithm": "marloo"},
    "maremax": {"algorithm": "maremax"},
    "mareinforce": {"algorithm": "mareinforce"},
    "normalize_group": {"normalize": "group"},
    "normalize_agent": {"normalize": "agent"},
    "normalize_step": {"normalize": "step"},
    "discount": {"discount": 0.5},
    "response_mean": {"token_weighting": "response_mean"},
    "batch_tokens": {"token_weighting": "batch_tokens"},
    "constant": {"token_weighting": "constant"},
    "clip": {"clip_ratio": 0.2},
    "clip_response_mean": {"clip_ratio": 0.1, "token_weighting": "response_mean"},
    "clip_higher": {"clip_ratio": 0.1, "clip_ratio_high": 0.4},
    "gspo": {"objective": "gspo", "clip_ratio": 0.05, "token_weighting": "response_mean"},
    "cispo": {"objective": "cispo", "clip_ratio_high": 0.2},
    "importance": {"importance_cap": 1.1},
    "importance_band": {"importance_band": [0.8, 1.3]},
    "sequence_limit": {"sequence_limit": 1.1, "importance_cap": 1.5},
    "clip_and_importance": {"clip_ratio": 0.2, "importance_cap": 1.1},
    "kl": {"kl_coef": 0.3},
    "kl_batch_tokens": {"kl_coef": 0.3, "token_weighting": "batch_tokens"},
    "local_parts": {"local_parts": {"a": ["own_a"], "b": ["own_b"]}, "team_weight": 0.5},
    "local_weights": {
        "local_parts": {"a": {"own_a": 0.5}, "b": {"own_a": -1.0, "own_b": 3.0}},
        "team_weight": 0.5,
    },
    "sft": {"algorithm": "sft"},
    "sft_kl": {"algorithm": "sft", "kl_coef": 0.3, "token_weighting": "response_mean"},
    "sft_above": {"algorithm": {"use": "sft", "options": {"above": 0.4}}},
    "gspo_in_small_batches": {"objective": "gspo", "clip_ratio": 0.05, "micro_batch_tokens": 16},
    "small_micro_batches": {"micro_batch_tokens": 16},
    "gradient_checkpointing": {"gradient_checkpointing": True},
}


@pytest.mark.parametrize(
    "policies",
    one_in(3, [{**options, "mismatch_tolerance": 1.0} for options in OPTIONS.values()]),
    ids=OPTIONS,
    indirect=True,
)
def test_gradient_matches_the_objective(policies: Policies, request: pytest.FixtureRequest) -> None:
    check(policies, request, 1)


@pytest.mark.parametrize(
    "policies", [pytest.param({"mismatch_tolerance": 1.0}, id="discussion")], indirect=True
)
def test_every_response_of_a_discussion_gets_its_turns_weight(
    policies: Policies, request: pytest.FixtureRequest
) -> None:
    check(policies, request, rounds=2)


@pytest.mark.parametrize(
    "policies",
    [
        pytest.param({**OPTIONS[name], "mismatch_tolerance": 1.0}, id=name, marks=marks)
        for name, marks in (
            ("paper", pytest.mark.slow),
            ("batch_tokens", pytest.mark.slow),
            ("clip_response_mean", ()),
            ("small_micro_batches", ()),
        )
    ],
    indirect=True,
)
def test_tokens_that_a_tool_wrote_carry_no_gradient(
    policies: Policies, request: pytest.FixtureRequest
) -> None:
    check(policies, request, rounds=1, steps=2)


CALL = '<tool_call>{"name":"say"}</tool_call>'


@pytest.mark.parametrize("chat", [CHAT, TOOL_CHAT], ids=["text", "template"])
def test_result_of_a_called_tool_carries_no_gradient(chat: str, here: Path) -> None:
    """The model samples its own tool calls, and the tool runs."""
    (here / "tools.py").write_text("def say() -> str:\n    return 'left again'\n")
    model = save_tiny(here / "model", [*WORDS, CALL, "tool"], chat=chat)
    data = make_game(model, here, group_size=12).model_dump(exclude_none=True)
    data["team"]["agents"]["a"] |= {"tools": ["tools.py:say"], "harness": "tools"}
    recipe = Recipe.model_validate(data)
    opened = open_policies(recipe, spec := trainer_of(recipe))
    opened.by_name["a"].engine.module.double()

    async def play() -> list[Episode]:
        async with Session(recipe, models=opened.models) as session:
            problem = Problem(address="game/1", public={"text": "say a word"})
            return await session.rollout([problem], samples=12, seed=3)

    played = with_sampler(asyncio.run(play()), opened, spec, {"a": Sampling(), "b": Sampling()})
    assert [d for e in played for d in e.decisions("a") if d.step]
    compare(opened, played, spec, {"a": Sampling(), "b": Sampling()})
    asyncio.run(opened.aclose())


@pytest.mark.parametrize(
    "policies",
    [
        pytest.param({**o, "mismatch_tolerance": 1.0}, id=name)
        for name, o in OPTIONS.items()
        if name in ("paper", "clip_and_importance", "small_micro_batches")
    ],
    indirect=True,
)
@pytest.mark.parametrize("truncation", one_in(2, TRUNCATED))
def test_gradient_matches_the_truncated_distribution(
    policies: Policies, request: pytest.FixtureRequest, truncation: str
) -> None:
    check(policies, request, 1, TRUNCATED[truncation])


def test_policies_share_the_engine_that_is_trained(game: Recipe) -> None:
    opened = open_policies(game, trainer_of(game))
    engines = {id(model) for model in opened.models.values()}
    assert len(engines) == 1
    assert isinstance(opened.by_name["a"].engine, TransformersEngine)
    asyncio.run(opened.aclose())
