"""Converts the credit of a step to the responses that a policy learns from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import fsum

from collab.errors import TrainingError
from collab.recipe import TrainerSpec
from collab.records import Action, Sampling
from collab.stats import mean
from collab.trainers.credit.group import Weights
from collab.trainers.credit.step_credit import Credit

NEGLIGIBLE_WEIGHT = 1e-9
"""Largest weight that counts as rounding error. Responses with such a weight are not computed."""


def is_alive(weight: float | Sequence[float]) -> bool:
    """Return True if a policy learns from a response with this weight."""
    numbers = weight if isinstance(weight, Sequence) else (weight,)
    return any(abs(number) > NEGLIGIBLE_WEIGHT for number in numbers)


def is_dead(weights: Weights) -> bool:
    """Return True if a policy learns nothing from a group with these weights."""
    return not any(map(is_alive, weights.values()))


@dataclass(frozen=True)
class Sample:
    """One response, with everything that its loss needs."""

    agent: str
    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    """The sampler's log-probabilities, by token, or () if no policy of this team sampled it."""
    sampling: Sampling
    weight: float
    """Advantage of its joint action, or the mean if each token has its own."""
    scale: float
    """Factor of each token's loss: visit share / groups, then as `token_weighting` says."""
    token_weights: tuple[float, ...] = ()
    """Advantages of each of `token_ids`, if the algorithm gives them by token."""

    @property
    def alive(self) -> bool:
        return is_alive(self.token_weights or self.weight)


def make_samples(
    credit: Credit, samplings: Mapping[str, Sampling], spec: TrainerSpec
) -> list[Sample]:
    """Return the responses of a step, in order, including responses without a weight.

    A turn of a discussion holds several responses of one agent. Each gets the turn's weight.
    """
    samples = []
    for group, weights in zip(credit.groups, credit.weights, strict=True):
        for (episode, turn, agent), weight in weights.items():
            share = group.visit_share[episode, turn] / len(credit.groups)
            decisions = group.episodes[episode].turns[turn].decisions
            actions = [d.action for d in decisions if d.agent == agent and d.action.token_ids]
            for action, token_weights in zip(
                actions, _action_weights(weight, actions, agent), strict=True
            ):
                sample = Sample(
                    agent=agent,
                    prompt_ids=action.prompt_ids,
                    token_ids=action.token_ids,
                    logprobs=action.logprobs,
                    sampling=samplings[agent],
                    weight=mean(token_weights),
                    scale=share,
                    token_weights=token_weights if isinstance(weight, Sequence) else (),
                )
                samples.append(sample)
    return weigh_tokens(samples, samplings, spec)


def _action_weights(
    weight: float | Sequence[float], actions: Sequence[Action], agent: str
) -> list[tuple[float, ...]]:
    """Return the weight of each action, or the weights of its tokens."""
    if not isinstance(weight, Sequence):
        return [(weight,)] * len(actions)
    lengths = [len(action.token_ids) for action in actions]
    if len(weight) != sum(lengths):
        raise TrainingError(
            f"the algorithm returned {len(weight)} weights for {sum(lengths)} tokens of agent"
            f" '{agent}'; return one per token that it sampled in the turn, or one number"
        )
    ends = list(accumulate(lengths))
    return [tuple(weight[end - n : end]) for n, end in zip(lengths, ends, strict=True)]


def weigh_tokens(
    samples: list[Sample], samplings: Mapping[str, Sampling], spec: TrainerSpec
) -> list[Sample]:
    """Return the samples with their scales divided as the recipe's `token_weighting` says."""
    if spec.token_weighting == "response_mean":
        return [replace(s, scale=s.scale / len(s.token_ids)) for s in samples]
    if spec.token_weighting == "constant":
        return [replace(s, scale=s.scale / samplings[s.agent].max_new_tokens) for s in samples]
    if spec.token_weighting == "batch_tokens":
        tokens = {
            agent: fsum(s.scale * len(s.token_ids) for s in samples if s.agent == agent)
            for agent in {s.agent for s in samples}
        }
        return [replace(s, scale=s.scale / tokens[s.agent]) for s in samples]
    return samples
