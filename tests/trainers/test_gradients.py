"""Every adapter's gradient equals that of the objective, computed naively token by token."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import torch
from support import naive_objective as naive
from support.shares import one_in
from support.tiny_words import CHAT, TOOL_CHAT, save_tiny
from support.trainer_recipes import WORDS, make_game

from collab.models.local.engine import TransformersEngine
from collab.recipe import Recipe, TrainerSpec
from collab.records import Action, Episode, Problem, Sampling
from collab.runtime import Session
from collab.trainers.credit import algorithm_for
from collab.trainers.credit.group import make_group, tree_of
from collab.trainers.credit.joint_actions import reward_of
from collab.trainers.credit.normalise import normalise
from collab.trainers.credit.shape import Shape
from collab.trainers.credit.step_credit import Credit
from collab.trainers.learner.learner import TorchLearner
from collab.trainers.learner.policy import Policies, open_policies
from collab.trainers.learner.samples import Sample, make_samples

SAMPLINGS = {"a": Sampling(), "b": Sampling(temperature=0.6)}
TRUNCATED = {
    "top_p": {"a": Sampling(top_p=0.8), "b": Sampling(temperature=0.6, top_p=0.5)},
    "top_k": {"a": Sampling(top_k=3), "b": Sampling(temperature=2.0, top_k=6, top_p=0.7)},
}

OPTIONS: dict[str, dict[str, Any]] = {
    "paper": {},
    "marloo": {"algorithm": "marloo"},
    "maremax": {"algorithm": "maremax"},
    "mareinforce": {"algorithm": "mareinforce"},
    "normalise_group": {"normalise": "group"},
    "normalise_agent": {"normalise": "agent"},
    "normalise_step": {"normalise": "step"},
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
    "sft": {"algorithm": "sft"},
    "sft_kl": {"algorithm": "sft", "kl_coef": 0.3, "token_weighting": "response_mean"},
    "sft_above": {"algorithm": {"use": "sft", "options": {"above": 0.4}}},
    "gspo_in_small_batches": {"objective": "gspo", "clip_ratio": 0.05, "micro_batch_tokens": 16},
    "small_micro_batches": {"micro_batch_tokens": 16},
    "gradient_checkpointing": {"gradient_checkpointing": True},
}


@pytest.fixture
def policies(
    tiny_words: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Policies]:
    """Two adapters in float64 that are not at their start."""
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


def trainer_of(recipe: Recipe) -> TrainerSpec:
    assert recipe.trainer is not None
    return recipe.trainer


def with_sampler(
    episodes: list[Episode],
    policies: Policies,
    spec: TrainerSpec,
    samplings: Mapping[str, Sampling],
) -> list[Episode]:
    """The episodes with the log-probs of a sampler that was a little off."""
    generator = torch.Generator().manual_seed(5)
    off = naive.SAMPLER_NOISE if spec.objective_used != "reinforce" or spec.corrects else 0.0

    def changed(agent: str, action: Action) -> Action:
        with policies.of(agent).training() as model, torch.no_grad():
            own = torch.stack(naive.token_logprobs(model, action, samplings[agent]))
        noise = off * torch.randn(own.shape, generator=generator, dtype=torch.float64)
        return action.model_copy(update={"logprobs": tuple((own + noise).tolist())})

    return [
        episode.model_copy(
            update={
                "turns": tuple(
                    turn.model_copy(
                        update={
                            "decisions": tuple(
                                d.model_copy(update={"action": changed(d.agent, d.action)})
                                for d in turn.decisions
                            )
                        }
                    )
                    for turn in episode.turns
                )
            }
        )
        for episode in episodes
    ]


def samples_of(
    episodes: list[Episode], spec: TrainerSpec, samplings: Mapping[str, Sampling]
) -> list[Sample]:
    tree = tree_of(episodes, Shape("chains", len(episodes), 3))
    rewards = {
        (g, t): {agent: reward_of(episodes[g].turns[t].score, agent, spec) for agent in ("a", "b")}  # type: ignore[arg-type]
        for g, t in tree.nodes
    }
    group = make_group(episodes, ("a", "b"), rewards, tree, spec.discount)
    weights = normalise(
        [group], asyncio.run(algorithm_for(spec.algorithm).credit([group])), spec.normalise
    )
    return make_samples(Credit([group], weights), samplings, spec)


def gradients_of_ours(
    policies: Policies, samples: list[Sample], spec: TrainerSpec
) -> dict[str, dict[str, torch.Tensor]]:
    """What the optimiser is handed, by policy."""
    learner = TorchLearner(policies, spec, total_steps=1)
    caught: dict[str, dict[str, torch.Tensor]] = {}
    for policy in policies:

        def catch(rate: float, max_norm: float | None, policy: Any = policy) -> float:
            caught[policy.name] = {
                k: torch.zeros_like(p) if p.grad is None else p.grad.clone()
                for k, p in policy.parameters.items()
            }
            for parameter in policy.parameters.values():
                parameter.grad = None
            return 1.0

        learner.optimisers[policy.name].step = catch  # type: ignore[method-assign]
        learner._seen_to_change.add(policy.name)
    learner.learn(samples, 0, Event())
    return caught


def gradients_of_naive(
    policies: Policies,
    episodes: list[Episode],
    spec: TrainerSpec,
    samplings: Mapping[str, Sampling],
) -> dict[str, dict[str, torch.Tensor]]:
    found = {}
    for agent in ("a", "b"):
        played = [len(episode.turns) for episode in episodes]
        if spec.algorithm.use == "sft":
            table = naive.kept(episodes, spec.algorithm.options.get("above"))
        else:
            table = naive.advantages(naive.returns_of(episodes, agent, spec), played, spec)
        responses = [
            (d.action, table[g][t], 1 / len(episodes))
            for g, episode in enumerate(episodes)
            for t, turn in enumerate(episode.turns)
            for d in turn.decisions
            if d.agent == agent
        ]
        policy = policies.of(agent)
        sampling = samplings[agent]
        references = {}
        if spec.kl_coef:
            with policy.reference() as model:
                references = {
                    n: naive.token_logprobs(model, a, sampling)
                    for n, (a, _, _) in enumerate(responses)
                }
        with policy.training() as model:
            model.eval()
            logprobs = {
                n: naive.token_logprobs(model, a, sampling) for n, (a, _, _) in enumerate(responses)
            }
            start = {n: [float(x.detach()) for x in row] for n, row in logprobs.items()}
            loss = -naive.objective(
                logprobs,
                references,
                responses,
                spec,
                start,
                max_new_tokens=sampling.max_new_tokens,
            )
            grads = torch.autograd.grad(loss, list(policy.parameters.values()))
        found[agent] = dict(zip(policy.parameters, grads, strict=True))
    return found


@pytest.mark.parametrize(
    "policies",
    [pytest.param({**o, "mismatch_tolerance": 1.0}, id=name) for name, o in OPTIONS.items()],
    indirect=True,
)
@pytest.mark.parametrize("rounds", [1])
def test_the_gradient_is_that_of_the_objective(
    policies: Policies, request: pytest.FixtureRequest, rounds: int
) -> None:
    check(policies, request, rounds)


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
        pytest.param({**OPTIONS[name], "mismatch_tolerance": 1.0}, id=name)
        for name in ("paper", "batch_tokens", "clip_response_mean", "small_micro_batches")
    ],
    indirect=True,
)
def test_tokens_that_a_tool_wrote_carry_no_gradient(
    policies: Policies, request: pytest.FixtureRequest
) -> None:
    check(policies, request, rounds=1, steps=3)


CALL = '<tool_call>{"name":"say"}</tool_call>'


@pytest.mark.parametrize("chat", [CHAT, TOOL_CHAT], ids=["told in text", "template"])
def test_what_a_called_tool_says_carries_no_gradient(
    chat: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Episodes as they are played: the model draws its calls, and the tool is run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tools.py").write_text("def say() -> str:\n    return 'left again'\n")
    model = save_tiny(tmp_path / "model", [*WORDS, CALL, "tool"], chat=chat)
    data = make_game(model, tmp_path, group_size=12).model_dump(exclude_none=True)
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
@pytest.mark.parametrize("truncation", TRUNCATED)
def test_the_gradient_is_that_of_the_truncated_distribution(
    policies: Policies, request: pytest.FixtureRequest, truncation: str
) -> None:
    check(policies, request, 1, TRUNCATED[truncation])


EARLY: dict[str, dict[str, Any]] = {
    "paper": {},
    "marloo": {"algorithm": "marloo"},
    "maremax": {"algorithm": "maremax"},
    "mareinforce": {"algorithm": "mareinforce"},
    "discount": {"discount": 0.5},
    "normalise": {"normalise": "group"},
    "local_parts": {"local_parts": {"a": ["own_a"]}, "team_weight": 0.5},
}
SOLVED = {"some": (1, 2), "all_but_one": (0, 1, 2, 4), "all": range(5)}


@pytest.mark.parametrize("policies", EARLY.values(), ids=EARLY, indirect=True)
@pytest.mark.parametrize("solved", SOLVED.values(), ids=SOLVED)
@pytest.mark.parametrize("when_solved", one_in(2, ["absorb", "stop"]))
def test_gradients_where_tasks_are_solved_early(
    policies: Policies, request: pytest.FixtureRequest, solved: Any, when_solved: str
) -> None:
    check(policies, request, 1, n_turns=3, solved=solved, when_solved=when_solved)


def check(
    policies: Policies,
    request: pytest.FixtureRequest,
    rounds: int,
    samplings: Mapping[str, Sampling] = SAMPLINGS,
    **made_with: Any,
) -> None:
    options = request.node.callspec.params["policies"]
    spec = TrainerSpec.model_validate({"group_size": 5, **options})
    vocabulary = policies.by_name["a"].engine.module.config.vocab_size
    made = naive.episodes(vocabulary, samples=5, rounds=rounds, **made_with)
    compare(policies, with_sampler(made, policies, spec, samplings), spec, samplings)


def compare(
    policies: Policies,
    made: list[Episode],
    spec: TrainerSpec,
    samplings: Mapping[str, Sampling],
) -> None:
    ours = gradients_of_ours(policies, samples_of(made, spec, samplings), spec)
    plain = gradients_of_naive(policies, made, spec, samplings)
    for agent in ("a", "b"):
        whole = torch.cat([g.flatten() for g in plain[agent].values()])
        got = torch.cat([ours[agent][k].flatten() for k in plain[agent]])
        assert whole.norm() > 1e-3
        assert (got - whole).norm() <= 1e-5 * whole.norm()


def test_the_engine_is_the_one_that_is_trained(game: Recipe) -> None:
    opened = open_policies(game, trainer_of(game))
    engines = {id(model) for model in opened.models.values()}
    assert len(engines) == 1
    assert isinstance(opened.by_name["a"].engine, TransformersEngine)
    asyncio.run(opened.aclose())
