"""What one update of the policies found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from collab.trainers.learner.loss import TokenLoss
from collab.trainers.learner.samples import Sample


@dataclass
class TokenSums:
    """Sums over the tokens of one agent's responses, as the first pass over them found them."""

    tokens: int = 0
    logprob: float = 0.0
    mismatch: float = 0.0
    clipped: float = 0.0
    outside_support: int = 0
    kl: float = 0.0
    kl_tokens: int = 0


@dataclass
class Update:
    """What one step of learning found."""

    sums: dict[str, TokenSums] = field(default_factory=dict)
    """By agent."""
    losses: dict[str, float] = field(default_factory=dict)
    """The loss of each policy; absent where no response had a weight."""
    gradient_norms: dict[str, float] = field(default_factory=dict)
    """The gradient norm of each policy before clipping; absent where it was not finite."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Why a policy with something to learn from was left as it was, by its name."""
    rate: float = 0.0
    """The learning rate of the step."""
    computed_tokens: int = 0
    """The tokens of all forward passes with gradient, padding included."""


def count(
    update: Update,
    batch: Sequence[Sample],
    logprobs: Tensor,
    outside_support: Tensor,
    found: TokenLoss,
) -> None:
    """Add what a first pass found about the tokens of `batch`."""
    lengths = [len(s.token_ids) for s in batch]
    flags = [flag.to(logprobs.dtype) for flag in (found.clipped, outside_support)]
    columns = (logprobs, found.mismatch, *flags)
    totals = [[float(piece.sum()) for piece in torch.split(column, lengths)] for column in columns]
    for sample, logprob, mismatch, clipped, stray in zip(batch, *totals, strict=True):
        sums = update.sums.setdefault(sample.agent, TokenSums())
        sums.tokens += len(sample.token_ids)
        sums.logprob += logprob
        sums.mismatch += mismatch
        sums.clipped += clipped
        sums.outside_support += int(stray)
    count_kl(update, batch, found)


def count_kl(update: Update, batch: Sequence[Sample], found: TokenLoss) -> None:
    """Add the divergence from the reference, where it was worked out."""
    if found.kl is None:
        return
    pieces = torch.split(found.kl, [len(s.token_ids) for s in batch])
    for sample, piece in zip(batch, pieces, strict=True):
        sums = update.sums.setdefault(sample.agent, TokenSums())
        sums.kl += float(piece.sum())
        sums.kl_tokens += len(sample.token_ids)
