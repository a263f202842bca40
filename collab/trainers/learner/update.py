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
    mismatch_kl: float = 0.0
    """The k3 estimate of the sampler's divergence from the trainer."""
    importance: float = 0.0
    """Ratios of the trainer's to the sampler's probability."""
    masked: float = 0.0
    """Tokens that a correction for the sampler left out."""
    clipped: float = 0.0
    outside_support: float = 0.0
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
    order: dict[str, int] = field(default_factory=dict)
    """The place of each policy that learned in the order of updates, from 1."""
    compound_ratios: dict[str, float] = field(default_factory=dict)
    """By policy: the mean of what its weights were multiplied by, as others were updated before."""
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
    ratio = found.correction.ratio
    columns = {
        "logprob": logprobs,
        "mismatch": found.mismatch,
        "mismatch_kl": ratio - torch.log(ratio) - 1,
        "importance": ratio,
        "masked": found.correction.masked,
        "clipped": found.clipped,
        "outside_support": outside_support,
    }
    table = torch.stack([column.to(logprobs.dtype) for column in columns.values()])
    pieces = torch.split(table, lengths, dim=1)  # of each response [columns, its tokens]
    for sample, piece in zip(batch, pieces, strict=True):
        sums = update.sums.setdefault(sample.agent, TokenSums())
        sums.tokens += len(sample.token_ids)
        for name, value in zip(columns, piece.sum(dim=1).tolist(), strict=True):
            setattr(sums, name, getattr(sums, name) + value)
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
