"""The loss of a batch of responses, token by token."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from collab.recipe import TrainerSpec
from collab.trainers.learner.samples import Sample
from collab.trainers.learner.to_device import tensor_on


@dataclass(frozen=True)
class Tokens:
    """The tokens of some responses, concatenated, with fields of shape [tokens]."""

    logprobs: Tensor
    """Policy's log pi, with gradient."""
    old: Tensor
    """Sampling policy's log pi_old, without gradient."""
    weights: Tensor
    """Weight A of each token."""
    response: Tensor
    """Index of each token's response, from 0."""
    responses: int
    """Number of responses."""

    def response_mean(self, values: Tensor) -> Tensor:
        """Return the mean of `values` over each token's own response: [tokens]."""
        sums = values.new_zeros(self.responses).index_add(0, self.response, values)
        return sums[self.response] / self.lengths(values)

    def lengths(self, like: Tensor) -> Tensor:
        """Return the length of each token's own response, in the type of `like`: [tokens]."""
        ones = torch.ones_like(like)
        return like.new_zeros(self.responses).index_add(0, self.response, ones)[self.response]


TokenObjective = tuple[Tensor, Tensor]
"""Each token's part of the objective, and whether its gradient was clipped, both [tokens]."""


def reinforce(tokens: Tokens, _: TrainerSpec) -> TokenObjective:
    """Return A log pi: REINFORCE, and MAGRPO's Eq. 2 (arXiv 2508.04652)."""
    return tokens.weights * tokens.logprobs, torch.zeros_like(tokens.weights, dtype=torch.bool)


def ppo(tokens: Tokens, spec: TrainerSpec) -> TokenObjective:
    """Return min(r A, clip(r, 1 - low, 1 + high) A), PPO (arXiv 1707.06347) by token.

    A `clip_ratio_high` above `clip_ratio` is DAPO's clip (arXiv 2503.14476).
    """
    return _clip_objective(torch.exp(tokens.logprobs - tokens.old), tokens.weights, spec)


def gspo(tokens: Tokens, spec: TrainerSpec) -> TokenObjective:
    """Return min(s A, clip(s, 1 - low, 1 + high) A), s = exp(mean over the response of log r).

    Token-level GSPO (arXiv 2507.18071): s is the ratio of the whole response, and only the token's
    own log-probability has a gradient. With `response_mean` this equals sequence-level GSPO.
    """
    difference = tokens.logprobs - tokens.old
    mean = tokens.response_mean(difference.detach())
    ratio = torch.exp(mean + tokens.logprobs - tokens.logprobs.detach())
    return _clip_objective(ratio, tokens.weights, spec)


def cispo(tokens: Tokens, spec: TrainerSpec) -> TokenObjective:
    """Return stop_gradient(min(r, 1 + high)) A log pi, CISPO (arXiv 2506.13585).

    Every token keeps its gradient, but the weight of the gradient is bounded. `clipped` marks the
    bounded tokens.
    """
    ratio = torch.exp(tokens.logprobs.detach() - tokens.old)
    limit = 1 + _clip_high(spec)
    return ratio.clamp(max=limit) * tokens.weights * tokens.logprobs, ratio > limit


def _clip_objective(ratio: Tensor, weights: Tensor, spec: TrainerSpec) -> TokenObjective:
    low = 1 - (spec.clip_ratio or 0.0)
    bounded = ratio.clamp(low, 1 + _clip_high(spec)) * weights
    whole = ratio * weights
    return torch.minimum(whole, bounded), (bounded < whole).detach()


def _clip_high(spec: TrainerSpec) -> float:
    high = spec.clip_ratio if spec.clip_ratio_high is None else spec.clip_ratio_high
    return high or 0.0


OBJECTIVES: Mapping[str, Callable[[Tokens, TrainerSpec], TokenObjective]] = {
    "reinforce": reinforce,
    "ppo": ppo,
    "gspo": gspo,
    "cispo": cispo,
}


def correct(tokens: Tokens, difference: Tensor, spec: TrainerSpec) -> tuple[Tensor, Tensor, Tensor]:
    """Return each token's factor of the loss from the corrections that the recipe names, its ratio
    rho, and whether it is excluded: each [tokens].

    `importance_cap`: min(rho, cap), truncated importance sampling. `importance_band`: rho inside
    the band, 0 outside. `sequence_limit`: 0 for all tokens of a response whose product of rho is
    larger. Without any of them the factor is 1.

    Args:
        difference: log rho, [tokens], without gradient.
    """
    ratio = torch.exp(difference)
    kept = torch.ones_like(ratio, dtype=torch.bool)
    factor = torch.ones_like(ratio)
    if spec.effective_cap is not None:
        factor = ratio.clamp(max=spec.effective_cap)
    if spec.importance_band is not None:
        low, high = spec.importance_band
        kept = (ratio >= low) & (ratio <= high)
        factor = ratio
    if spec.sequence_limit is not None:
        product = torch.exp(tokens.response_mean(difference) * tokens.lengths(difference))
        kept = kept & (product <= spec.sequence_limit)
    return torch.where(kept, factor, torch.zeros_like(factor)), ratio, ~kept


@dataclass(frozen=True)
class TokenLoss:
    """The loss of some tokens and its statistics, each [tokens], without gradient."""

    total: Tensor
    """Loss, a scalar that carries the gradient."""
    mismatch: Tensor
    """|trainer's - sampler's log-probability|."""
    clipped: Tensor
    """True if the clip removed or bounded the token's gradient."""
    ratio: Tensor
    """Ratio rho of the trainer's to the sampler's probability."""
    masked: Tensor
    """True if a correction for the sampler excluded the token."""
    kl: Tensor | None
    """KL divergence of the tokens with a reference, by the k3 estimate."""


def token_loss(
    logprobs: Tensor,
    samples: Sequence[Sample],
    spec: TrainerSpec,
    *,
    start: Tensor | None = None,
    reference: Tensor | None = None,
) -> TokenLoss:
    """Return minus the objective of some responses' tokens, with statistics: -scale x factor x
    gain, summed.

    The gain is that of the recipe's `objective`, MAGRPO's Eq. 2 (arXiv 2508.04652) by default. The
    factor comes from the recipe's corrections (`correct`). If there are any, pi_old is the policy
    at the step's start instead of the sampler. `kl_coef` adds scale x kl_coef x k3, k3 = exp(d) - d
    - 1, d = log reference - log pi.

    Args:
        logprobs: log-probabilities under the policy, [tokens], all tokens of the first sample
            first.
        start: log-probabilities at the step's start, [tokens], without gradient; None if the policy
            is still the one of the start.
        reference: log-probabilities under the reference, [tokens], needed with `kl_coef`. Without
            `kl_coef`, it may have only the first tokens, and the KL is measured for these.
    """
    sampler = _sampler_logprobs(samples, logprobs)
    scale = _flatten_like([[s.scale] * len(s.token_ids) for s in samples], logprobs)
    start_logprobs = logprobs.detach() if start is None else start
    tokens = Tokens(
        logprobs,
        old=start_logprobs if spec.has_correction else sampler,
        weights=_flatten_like(
            [s.token_weights or [s.weight] * len(s.token_ids) for s in samples], logprobs
        ),
        response=tensor_on(
            [n for n, s in enumerate(samples) for _ in s.token_ids], logprobs.device
        ),
        responses=len(samples),
    )
    gain, clipped = OBJECTIVES[spec.effective_objective](tokens, spec)
    factor, ratio, masked = correct(tokens, start_logprobs - sampler, spec)

    total = -(scale * (gain * factor)).sum()
    kl = None
    if reference is not None:
        measured = len(reference)
        difference = reference - logprobs[:measured]
        divergence = torch.exp(difference) - difference - 1
        if spec.kl_coef:
            total = total + spec.kl_coef * (scale[:measured] * divergence).sum()
        kl = divergence.detach()
    mismatch = (logprobs.detach() - sampler).abs()
    return TokenLoss(total, mismatch, clipped, ratio, masked, kl)


def _sampler_logprobs(samples: Sequence[Sample], logprobs: Tensor) -> Tensor:
    """Return the sampler's log-probabilities, or `logprobs` where there are none."""
    if all(sample.logprobs for sample in samples):
        return _flatten_like([s.logprobs for s in samples], logprobs)
    trainers = torch.split(logprobs.detach(), [len(s.token_ids) for s in samples])
    pieces = zip(samples, trainers, strict=True)
    return torch.cat([_flatten_like([s.logprobs], p) if s.logprobs else p for s, p in pieces])


def _flatten_like(values: Sequence[Sequence[float]], like: Tensor) -> Tensor:
    flat = [value for row in values for value in row]
    return tensor_on(flat, like.device, like.dtype)
