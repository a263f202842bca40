"""From credited groups to the responses that a policy learns from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum

from collab.recipe import TrainerSpec
from collab.records import Sampling
from collab.trainers.credit import Credited

NEGLIGIBLE = 1e-9
"""Weights up to this are rounding: their responses are not computed."""


@dataclass(frozen=True)
class Sample:
    """One response, with all that its loss needs."""

    agent: str
    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    """The sampler's, one for each of `token_ids`."""
    temperature: float
    weight: float
    """The advantage of its joint action."""
    scale: float
    """Its part of the objective's mean, by token: 1/G over the groups of the step."""
    top_p: float = 1.0
    top_k: int = 0

    @property
    def truncated(self) -> bool:
        """Whether it was drawn from the likeliest tokens only."""
        return self.top_p < 1 or self.top_k > 0

    @property
    def alive(self) -> bool:
        return abs(self.weight) > NEGLIGIBLE

    def __len__(self) -> int:
        return len(self.prompt_ids) + len(self.token_ids)


def make_samples(
    credited: Sequence[Credited], samplings: Mapping[str, Sampling], spec: TrainerSpec
) -> list[Sample]:
    """The responses of a step, in order, with those that have no weight.

    A discussion's turn holds several responses of one agent; each gets the turn's weight.
    """
    samples = []
    for item in credited:
        for (episode, turn, agent), weight in item.weights.items():
            share = item.group.shares[episode, turn] / len(credited)
            for decision in item.group.episodes[episode].turns[turn].decisions:
                action, sampling = decision.action, samplings[agent]
                if decision.agent == agent and action.token_ids:
                    sample = Sample(
                        agent=agent,
                        prompt_ids=action.prompt_ids,
                        token_ids=action.token_ids,
                        logprobs=action.logprobs,
                        temperature=sampling.temperature,
                        weight=weight,
                        scale=share,
                        top_p=sampling.top_p,
                        top_k=sampling.top_k,
                    )
                    samples.append(sample)
    return _weigh_tokens(samples, spec)


def _weigh_tokens(samples: list[Sample], spec: TrainerSpec) -> list[Sample]:
    """Spread each response's part of the mean over its tokens."""
    if spec.token_weighting == "response_mean":
        return [replace(s, scale=s.scale / len(s.token_ids)) for s in samples]
    if spec.token_weighting == "batch_mean":
        tokens = {
            agent: fsum(s.scale * len(s.token_ids) for s in samples if s.agent == agent)
            for agent in {s.agent for s in samples}
        }
        return [replace(s, scale=s.scale / tokens[s.agent]) for s in samples]
    return samples
