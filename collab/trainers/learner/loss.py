"""The loss of a batch of responses, token by token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from collab.recipe import TrainerSpec
from collab.trainers.learner.samples import Sample


@dataclass(frozen=True)
class TokenLoss:
    """The loss of some tokens, and what is told of them; each [tokens], without gradient."""

    total: Tensor
    """The loss, a scalar that carries the gradient."""
    mismatch: Tensor
    """|trainer's - sampler's log-probability|."""
    clipped: Tensor
    """Whether the clip took the token's gradient away."""
    kl: Tensor | None
    """The k3 estimate, where a reference was given."""


def token_loss(
    logprobs: Tensor,
    samples: Sequence[Sample],
    spec: TrainerSpec,
    *,
    start: Tensor | None = None,
    reference: Tensor | None = None,
) -> TokenLoss:
    """Minus the objective (MAGRPO's Eq. 2, arXiv 2508.04652) of some responses' tokens.

    By default a token contributes -scale x A x log pi. With `clip_ratio` it contributes PPO's
    -scale x min(rho A, clip(rho, 1 - eps, 1 + eps) A), where rho is the probability ratio to the
    sampler (arXiv 1707.06347). With `importance_cap` that ratio is to the policy at the step's
    start, and the token is multiplied by min(start / sampler, cap), without gradient.
    `kl_coef` adds scale x kl_coef x k3, k3 = exp(d) - d - 1, d = log reference - log pi.

    Args:
        logprobs: the policy's, [tokens], all tokens of the first sample first.
        start: the same at the step's start, without gradient; None at that start itself.
        reference: the reference's, [tokens], needed with `kl_coef`.
    """
    sampler = _by_token([s.logprobs for s in samples], logprobs)
    weight = _by_token(
        [s.token_weights or [s.weight] * len(s.token_ids) for s in samples], logprobs
    )
    scale = _repeat([s.scale for s in samples], samples, logprobs)
    begun = logprobs.detach() if start is None else start
    old = sampler if spec.importance_cap is None else begun

    clipped = torch.zeros_like(weight, dtype=torch.bool)
    if spec.clip_ratio is None:
        gain = weight * logprobs
    else:
        ratio = torch.exp(logprobs - old)
        bounded = ratio.clamp(1 - spec.clip_ratio, 1 + spec.clip_ratio)
        gain = torch.minimum(ratio * weight, bounded * weight)
        clipped = (bounded * weight < ratio * weight).detach()
    if spec.importance_cap is not None:
        gain = gain * torch.exp(begun - sampler).clamp(max=spec.importance_cap)

    total = -(scale * gain).sum()
    kl = None
    if reference is not None:
        difference = reference - logprobs
        divergence = torch.exp(difference) - difference - 1
        if spec.kl_coef:
            total = total + spec.kl_coef * (scale * divergence).sum()
        kl = divergence.detach()
    return TokenLoss(total, (logprobs.detach() - sampler).abs(), clipped, kl)


def _by_token(values: Sequence[Sequence[float]], like: Tensor) -> Tensor:
    flat = [value for row in values for value in row]
    return torch.tensor(flat, dtype=like.dtype, device=like.device)


def _repeat(values: Sequence[float], samples: Sequence[Sample], like: Tensor) -> Tensor:
    """One value a sample, repeated for each of its tokens: [tokens]."""
    return _by_token([[v] * len(s.token_ids) for v, s in zip(values, samples, strict=True)], like)
