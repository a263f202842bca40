"""What one update of the policies works on, and what it found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from collab.trainers.learner.loss import TokenLoss
from collab.trainers.learner.prefix_tree.packing import PackedSequence
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
    warnings: list[str] = field(default_factory=list)
    """What takes longer than it should, and why."""
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
    responses: list[tuple[str, int]]
    """Of each, its agent and its tokens."""
    rows: list[list[float]]
    """Of each response, what `COLUMNS` names."""
    kl: list[float]
    """Of each response; empty where it was not worked out."""

    def add_to(self, update: Update) -> None:
        """Add the sums to those of the agents."""
        for (agent, tokens), row in zip(self.responses, self.rows, strict=bool(self.rows)):
            sums = update.sums.setdefault(agent, TokenSums())
            sums.tokens += tokens
            for name, value in zip(COLUMNS, row, strict=True):
                setattr(sums, name, getattr(sums, name) + value)
        for (agent, tokens), value in zip(self.responses, self.kl, strict=bool(self.kl)):
            sums = update.sums.setdefault(agent, TokenSums())
            sums.kl += value
            sums.kl_tokens += tokens


@dataclass
class MicroBatch:
    """Rows of one forward and backward pass, and what they are compared with; by token."""

    number: int
    """Its place among the micro-batches of all ranks."""
    rows: list[PackedSequence]
    reference: Tensor | None = None
    start: Tensor | None = None
    """The log-probabilities of the first pass, once it was made."""


@dataclass(frozen=True)
class Share:
    """What one rank computes of a policy's step."""

    own: list[MicroBatch]
    pieces: int
    """The micro-batches of all ranks."""
    most: int
    """Micro-batches of the rank that has most of them."""
    probes: PackedSequence
    """The responses whose divergence is measured, on the rank that has the first micro-batch."""


@dataclass
class Pass:
    """What a forward and backward pass over one micro-batch found."""

    number: int
    """The micro-batch's place in the step's."""
    rank: int
    """Who computed it."""
    computed_tokens: int
    tallied: list[Tallied]
    """What was found of it, and behind that what of its first responses."""

    @property
    def loss(self) -> float:
        """That of the micro-batch."""
        return self.tallied[0].loss

    def add_to(self, update: Update) -> None:
        """Add what it found to the step's."""
        for tallied in self.tallied:
            tallied.add_to(update)


def most_on(passes: Sequence[Pass], agent: str) -> str:
    """Which rank computed the response whose log-probabilities differ most from the sampler's."""
    differ = [
        (row[COLUMNS.index("mismatch")] / tokens, one.rank)
        for one in passes
        for (name, tokens), row in zip(one.tallied[0].responses, one.tallied[0].rows, strict=True)
        if name == agent
    ]
    most, rank = max(differ)
    return f", most on rank {rank}: {most:.3g}"


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
        responses = [(sample.agent, len(sample.token_ids)) for sample in self._batch]
        return Tallied(loss, responses, rows, kl)


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
