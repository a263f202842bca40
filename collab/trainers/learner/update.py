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


COLUMNS = (
    "logprob",
    "mismatch",
    "mismatch_kl",
    "importance",
    "masked",
    "clipped",
    "outside_support",
)
"""What is summed over each response's tokens, as it is called in `TokenSums`."""


@dataclass(frozen=True)
class Tallied:
    """What a pass over some responses found, on the host."""

    loss: float
    batch: Sequence[Sample]
    rows: list[list[float]]
    """Of each response, what `COLUMNS` names."""
    kl: list[float]
    """Of each response; empty where it was not worked out."""

    def add_to(self, update: Update) -> None:
        """Add the sums to those of the agents."""
        for sample, row in zip(self.batch, self.rows, strict=bool(self.rows)):
            sums = update.sums.setdefault(sample.agent, TokenSums())
            sums.tokens += len(sample.token_ids)
            for name, value in zip(COLUMNS, row, strict=True):
                setattr(sums, name, getattr(sums, name) + value)
        for sample, value in zip(self.batch, self.kl, strict=bool(self.kl)):
            sums = update.sums.setdefault(sample.agent, TokenSums())
            sums.kl += value
            sums.kl_tokens += len(sample.token_ids)


class Tally:
    """What a pass over some responses found, on the device until it is asked for.

    Everything comes to the host in one piece: each number by itself would make it wait for the
    device anew.
    """

    def __init__(
        self,
        batch: Sequence[Sample],
        found: TokenLoss,
        logprobs: Tensor,
        outside_support: Tensor | None = None,
    ) -> None:
        """Without `outside_support` the divergence from the reference alone is told."""
        self._batch, self._has_kl = batch, found.kl is not None
        lengths = [len(s.token_ids) for s in batch]
        parts = [found.total.detach().reshape(1)]
        if found.kl is not None:
            parts += [torch.stack([x.sum() for x in torch.split(found.kl, lengths)])]
        self._has_columns = outside_support is not None
        if outside_support is not None:
            table = _table(found, logprobs, outside_support)
            pieces = torch.split(table, lengths, dim=1)  # of each response [columns, its tokens]
            parts += [piece.sum(dim=1) for piece in pieces]
        self._numbers = torch.cat(parts)

    def read(self) -> Tallied:
        """Bring the numbers to the host, which waits for the device."""
        loss, *rest = self._numbers.tolist()
        n = len(self._batch)
        kl = rest[:n] if self._has_kl else []
        columns = rest[len(kl) :]
        width = len(COLUMNS)
        rows = [columns[start : start + width] for start in range(0, len(columns), width)]
        return Tallied(loss, self._batch, rows, kl)


def _table(found: TokenLoss, logprobs: Tensor, outside_support: Tensor) -> Tensor:
    """`COLUMNS` by token, [columns, tokens]."""
    ratio = found.correction.ratio
    columns = (
        logprobs,
        found.mismatch,
        ratio - torch.log(ratio) - 1,
        ratio,
        found.correction.masked,
        found.clipped,
        outside_support,
    )
    return torch.stack([column.to(logprobs.dtype) for column in columns])
