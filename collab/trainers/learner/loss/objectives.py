"""Objectives by token: what a response's weight multiplies, and where a clip ends its gradient.

A is a token's weight, r = pi / pi_old its probability ratio to the policy that sampled it. On the
first optimiser step of a batch r is 1, up to the sampler's rounding, and all objectives have the
gradient of `reinforce`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from collab.recipe import TrainerSpec


@dataclass(frozen=True)
class Tokens:
    """The tokens of some responses, those of one response after the other's; each [tokens]."""

    logprobs: Tensor
    """log pi, with gradient."""
    old: Tensor
    """log pi_old, without gradient."""
    weights: Tensor
    """A."""
    response: Tensor
    """The number of the response that each token is of, from 0."""
    responses: int
    """How many there are."""

    def response_mean(self, values: Tensor) -> Tensor:
        """The mean of `values` over each token's own response: [tokens]."""
        sums = values.new_zeros(self.responses).index_add(0, self.response, values)
        return sums[self.response] / self.lengths(values)

    def lengths(self, like: Tensor) -> Tensor:
        """The tokens of each token's own response, in the type of `like`: [tokens]."""
        ones = torch.ones_like(like)
        return like.new_zeros(self.responses).index_add(0, self.response, ones)[self.response]


Gain = tuple[Tensor, Tensor]
"""What each token adds to the objective, and whether its gradient was clipped; both [tokens]."""


def reinforce(tokens: Tokens, _: TrainerSpec) -> Gain:
    """A log pi: REINFORCE, and MAGRPO's Eq. 2 (arXiv 2508.04652)."""
    return tokens.weights * tokens.logprobs, torch.zeros_like(tokens.weights, dtype=torch.bool)


def ppo(tokens: Tokens, spec: TrainerSpec) -> Gain:
    """min(r A, clip(r, 1 - low, 1 + high) A), PPO (arXiv 1707.06347) by token.

    A `clip_ratio_high` above `clip_ratio` is DAPO's clip (arXiv 2503.14476).
    """
    return _clipped(torch.exp(tokens.logprobs - tokens.old), tokens.weights, spec)


def gspo(tokens: Tokens, spec: TrainerSpec) -> Gain:
    """min(s A, clip(s, 1 - low, 1 + high) A), s = exp(mean over the response of log r).

    GSPO (arXiv 2507.18071) in its form by token, whose gradient with `response_mean` is that of the
    whole response: s counts as a number, times pi / stop_gradient(pi).
    """
    difference = tokens.logprobs - tokens.old
    mean = tokens.response_mean(difference.detach())
    ratio = torch.exp(mean + tokens.logprobs - tokens.logprobs.detach())
    return _clipped(ratio, tokens.weights, spec)


def cispo(tokens: Tokens, spec: TrainerSpec) -> Gain:
    """stop_gradient(min(r, 1 + high)) A log pi, CISPO (arXiv 2506.13585).

    The weight of a token's gradient is bounded, and none is lost; `clipped` tells where it was.
    """
    ratio = torch.exp(tokens.logprobs.detach() - tokens.old)
    limit = 1 + _high(spec)
    return ratio.clamp(max=limit) * tokens.weights * tokens.logprobs, ratio > limit


def _clipped(ratio: Tensor, weights: Tensor, spec: TrainerSpec) -> Gain:
    low = 1 - (spec.clip_ratio or 0.0)
    bounded = ratio.clamp(low, 1 + _high(spec)) * weights
    whole = ratio * weights
    return torch.minimum(whole, bounded), (bounded < whole).detach()


def _high(spec: TrainerSpec) -> float:
    high = spec.clip_ratio if spec.clip_ratio_high is None else spec.clip_ratio_high
    return high or 0.0


OBJECTIVES: Mapping[str, Callable[[Tokens, TrainerSpec], Gain]] = {
    "reinforce": reinforce,
    "ppo": ppo,
    "gspo": gspo,
    "cispo": cispo,
}
