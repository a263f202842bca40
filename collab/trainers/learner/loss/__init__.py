"""The loss of a batch of responses, token by token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from collab.recipe import TrainerSpec
from collab.trainers.learner.loss.corrections import Correction, correct
from collab.trainers.learner.loss.objectives import OBJECTIVES, Tokens
from collab.trainers.learner.placed import placed
from collab.trainers.learner.samples import Sample

__all__ = ["TokenLoss", "token_loss"]


@dataclass(frozen=True)
class TokenLoss:
    """The loss of some tokens, and what is told of them; each [tokens], without gradient."""

    total: Tensor
    """The loss, a scalar that carries the gradient."""
    mismatch: Tensor
    """|trainer's - sampler's log-probability|."""
    clipped: Tensor
    """Whether the clip took the token's gradient away, or bounded it."""
    correction: Correction
    """What the token's loss was multiplied by, as the sampler is not quite the policy."""
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
    """Minus the objective of some responses' tokens: -scale x factor x gain, summed.

    The gain is that of the recipe's `objective`, MAGRPO's Eq. 2 (arXiv 2508.04652) by default;
    the factor is that of its corrections, and with any of them pi_old is the policy at the step's
    start in place of the sampler. `kl_coef` adds scale x kl_coef x k3, k3 = exp(d) - d - 1,
    d = log reference - log pi.

    Args:
        logprobs: the policy's, [tokens], all tokens of the first sample first.
        start: the same at the step's start, without gradient; None at that start itself.
        reference: the reference's, [tokens], needed with `kl_coef`.
    """
    sampler = _sampler(samples, logprobs)
    scale = _by_token([[s.scale] * len(s.token_ids) for s in samples], logprobs)
    begun = logprobs.detach() if start is None else start
    tokens = Tokens(
        logprobs,
        old=begun if spec.corrects else sampler,
        weights=_by_token(
            [s.token_weights or [s.weight] * len(s.token_ids) for s in samples], logprobs
        ),
        response=_responses(samples, logprobs),
        responses=len(samples),
    )
    gain, clipped = OBJECTIVES[spec.objective_used](tokens, spec)
    correction = correct(tokens, begun - sampler, spec)

    total = -(scale * (gain * correction.factor)).sum()
    kl = None
    if reference is not None:
        difference = reference - logprobs
        divergence = torch.exp(difference) - difference - 1
        if spec.kl_coef:
            total = total + spec.kl_coef * (scale * divergence).sum()
        kl = divergence.detach()
    return TokenLoss(total, (logprobs.detach() - sampler).abs(), clipped, correction, kl)


def _sampler(samples: Sequence[Sample], logprobs: Tensor) -> Tensor:
    """The sampler's log-probabilities; where there are none, those that it is to have."""
    if all(sample.logprobs for sample in samples):
        return _by_token([s.logprobs for s in samples], logprobs)
    own = torch.split(logprobs.detach(), [len(s.token_ids) for s in samples])
    pieces = zip(samples, own, strict=True)
    return torch.cat([_by_token([s.logprobs], p) if s.logprobs else p for s, p in pieces])


def _by_token(values: Sequence[Sequence[float]], like: Tensor) -> Tensor:
    flat = [value for row in values for value in row]
    return placed(flat, like.device, like.dtype)


def _responses(samples: Sequence[Sample], like: Tensor) -> Tensor:
    return placed([n for n, s in enumerate(samples) for _ in s.token_ids], like.device)
