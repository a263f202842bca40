"""Our gradients and those of a naive reference, for the same episodes."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from threading import Event
from typing import Any

import pytest
import torch
from support.naive import objective as naive

from collab.recipe import Recipe, TrainerSpec
from collab.records import Action, Episode, Sampling
from collab.trainers.credit import algorithm_for
from collab.trainers.credit.group import Node, make_group, reward_of
from collab.trainers.credit.normalize import normalize
from collab.trainers.credit.shape import Shape
from collab.trainers.credit.step_credit import Credit
from collab.trainers.learner.learner import Learner
from collab.trainers.learner.logprobs import response_logprobs
from collab.trainers.learner.policy import Policies
from collab.trainers.learner.prefix_tree.packing import PackedSequence
from collab.trainers.learner.samples import Sample, make_samples

SAMPLINGS = {"a": Sampling(), "b": Sampling(temperature=0.6)}


def trainer_of(recipe: Recipe) -> TrainerSpec:
    assert recipe.trainer is not None
    return recipe.trainer


def with_sampler(
    episodes: list[Episode],
    policies: Policies,
    spec: TrainerSpec,
    samplings: Mapping[str, Sampling],
) -> list[Episode]:
    """The episodes with log-probs of a slightly different sampler."""
    generator = torch.Generator().manual_seed(5)
    off = (
        naive.SAMPLER_NOISE
        if spec.effective_objective != "reinforce" or spec.has_correction
        else 0.0
    )

    def changed(agent: str, action: Action) -> Action:
        with policies.of(agent).training() as model, torch.no_grad():
            logprobs = torch.stack(naive.token_logprobs(model, action, samplings[agent]))
        noise = off * torch.randn(logprobs.shape, generator=generator, dtype=torch.float64)
        return action.model_copy(update={"logprobs": tuple((logprobs + noise).tolist())})

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
    def rewards_at(node: Node) -> dict[str, float]:
        score = episodes[node[0]].turns[node[1]].score
        assert score is not None
        return {agent: reward_of(score, agent, spec) for agent in "ab"}

    shape = Shape("chains", len(episodes), 3)
    group = make_group(episodes, "ab", rewards_at, shape, spec.discount)
    weights = normalize(
        [group], asyncio.run(algorithm_for(spec.algorithm).credit([group])), spec.normalize
    )
    return make_samples(Credit([group], weights), samplings, spec)


def gradients_of_ours(
    policies: Policies, samples: list[Sample], spec: TrainerSpec
) -> dict[str, dict[str, torch.Tensor]]:
    """The gradients that the optimizer receives, by policy."""
    learner = Learner(policies, spec, total_steps=1)
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

        learner.optimizers[policy.name].step = catch  # type: ignore[method-assign]
        learner._changed_policies.add(policy.name)
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
            table = naive.sft_mask(episodes, spec.algorithm.options.get("above"))
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
                logprobs, references, responses, spec, start, max_new_tokens=sampling.max_new_tokens
            )
            grads = torch.autograd.grad(loss, list(policy.parameters.values()))
        found[agent] = dict(zip(policy.parameters, grads, strict=True))
    return found


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
    episodes = naive.episodes(vocabulary, samples=5, rounds=rounds, **made_with)
    compare(policies, with_sampler(episodes, policies, spec, samplings), spec, samplings)


def compare(
    policies: Policies,
    episodes: list[Episode],
    spec: TrainerSpec,
    samplings: Mapping[str, Sampling],
) -> None:
    ours = gradients_of_ours(policies, samples_of(episodes, spec, samplings), spec)
    plain = gradients_of_naive(policies, episodes, spec, samplings)
    for agent in ("a", "b"):
        expected = torch.cat([g.flatten() for g in plain[agent].values()])
        got = torch.cat([ours[agent][k].flatten() for k in plain[agent]])
        assert expected.norm() > 1e-3
        assert (got - expected).norm() <= 1e-5 * expected.norm()


def on_policy_samples(policies: Policies, agents: str = "ab", weight: float = 1.0) -> list[Sample]:
    """A response of each agent with the log-probabilities of its current policy."""
    samples = []
    for agent in agents:
        policy = policies.of(agent)
        plain = Sample(agent, (1, 2, 3), (4, 5), (0.0, 0.0), Sampling(), weight=weight, scale=0.5)
        with policy.training() as model, torch.no_grad():
            row = PackedSequence([plain])
            logprobs = response_logprobs(model, [row], policy.device).logprobs.tolist()
        samples.append(replace(plain, logprobs=tuple(logprobs)))
    return samples
