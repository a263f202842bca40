"""What a step of learning found, in sums over tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from collab.trainers.learner.loss import TokenLoss
from collab.trainers.learner.samples import Sample


@dataclass
class Tally:
    """What the first pass over one agent's responses found, as sums over tokens."""

    tokens: int = 0
    logprob: float = 0.0
    mismatch: float = 0.0
    clipped: float = 0.0
    outside_support: int = 0
    kl: float = 0.0
    kl_tokens: int = 0


@dataclass
class Update:
    """What a step of learning found."""

    tallies: dict[str, Tally] = field(default_factory=dict)
    """By agent."""
    losses: dict[str, float] = field(default_factory=dict)
    """By policy; absent where no response had a weight."""
    gradient_norms: dict[str, float] = field(default_factory=dict)
    """By policy; absent where it was not finite."""
    skipped: dict[str, str] = field(default_factory=dict)
    """By policy: why it was left as it was, although there was something to learn from."""
    rate: float = 0.0
    computed_tokens: int = 0
    """Of all forward passes with gradient, with padding to the longest row of each."""


def count(
    update: Update,
    batch: Sequence[Sample],
    logprobs: Tensor,
    outside_support: Tensor,
    found: TokenLoss,
) -> None:
    lengths = [len(s.token_ids) for s in batch]
    flags = [flag.to(logprobs.dtype) for flag in (found.clipped, outside_support)]
    columns = (logprobs, found.mismatch, *flags)
    sums = [[float(piece.sum()) for piece in torch.split(column, lengths)] for column in columns]
    for sample, logprob, mismatch, clipped, stray in zip(batch, *sums, strict=True):
        tally = update.tallies.setdefault(sample.agent, Tally())
        tally.tokens += len(sample.token_ids)
        tally.logprob += logprob
        tally.mismatch += mismatch
        tally.clipped += clipped
        tally.outside_support += int(stray)
    count_kl(update, batch, found)


def count_kl(update: Update, batch: Sequence[Sample], found: TokenLoss) -> None:
    if found.kl is None:
        return
    pieces = torch.split(found.kl, [len(s.token_ids) for s in batch])
    for sample, piece in zip(batch, pieces, strict=True):
        tally = update.tallies.setdefault(sample.agent, Tally())
        tally.kl += float(piece.sum())
        tally.kl_tokens += len(sample.token_ids)
