"""The work of one update of the policies, and its numbers: by pass, then for the whole step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import torch
from torch import Tensor

from collab.trainers.learner.loss import TokenLoss
from collab.trainers.learner.prefix_tree.packing import PackedSequence
from collab.trainers.learner.samples import Sample


@dataclass
class TokenSums:
    """Sums over response tokens, in the first epoch."""

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
    """The numbers of one step of learning."""

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

    def add(self, result: PassResult) -> None:
        """Add the sums of a pass to those of its agents."""
        for agent, sums in result.responses:
            total = self.sums.setdefault(agent, TokenSums())
            for item in fields(TokenSums):
                setattr(total, item.name, getattr(total, item.name) + getattr(sums, item.name))


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
class PassResult:
    """The numbers of a forward and backward pass over one micro-batch, on the host."""

    number: int
    """The micro-batch's place in the step's."""
    rank: int
    """The rank that computed it."""
    computed_tokens: int
    loss: float
    responses: list[tuple[str, TokenSums]]
    """The agent and the sums of each response; last those of responses whose KL alone is known."""


def most_on(results: Sequence[PassResult], agent: str) -> str:
    """Which rank computed the response whose log-probabilities differ most from the sampler's."""
    most, rank = max(
        (sums.mismatch / sums.tokens, result.rank)
        for result in results
        for name, sums in result.responses
        if name == agent and sums.tokens
    )
    return f", most on rank {rank}: {most:.3g}"


class Tally:
    """Sums over each response's tokens in one tensor on the device, which `read` waits for.

    One transfer brings all of them to the host: each number by itself would wait for the device.
    """

    def __init__(
        self,
        batch: Sequence[Sample],
        loss: TokenLoss,
        logprobs: Tensor,
        outside_support: Tensor | None = None,
    ) -> None:
        """Without `outside_support` only the loss and the KL are summed."""
        self._batch, self._has_kl = batch, loss.kl is not None
        lengths = [len(s.token_ids) for s in batch]
        parts = [loss.total.detach().reshape(1)]
        if loss.kl is not None:
            parts += [torch.stack([x.sum() for x in torch.split(loss.kl, lengths)])]
        if outside_support is not None:
            table = _table(loss, logprobs, outside_support)
            pieces = torch.split(table, lengths, dim=1)  # of each response [columns, its tokens]
            parts += [piece.sum(dim=1) for piece in pieces]
        self._numbers = torch.cat(parts)

    def read(self) -> tuple[float, list[tuple[str, TokenSums]]]:
        """The loss, and the agent and sums of each response; waits for the device."""
        loss, *rest = self._numbers.tolist()
        n = len(self._batch)
        kl, columns = (rest[:n], rest[n:]) if self._has_kl else ([0.0] * n, rest)
        width = len(columns) // n
        responses = []
        for place, sample in enumerate(self._batch):
            length = len(sample.token_ids)
            sums = TokenSums(length if width else 0, *columns[place * width : (place + 1) * width])
            sums.kl, sums.kl_tokens = kl[place], length if self._has_kl else 0
            responses.append((sample.agent, sums))
        return loss, responses


def _table(loss: TokenLoss, logprobs: Tensor, outside_support: Tensor) -> Tensor:
    """The fields of `TokenSums` from `logprob` to `outside_support`, by token: [7, tokens]."""
    ratio = loss.correction.ratio
    columns = (
        logprobs,
        loss.mismatch,
        ratio - torch.log(ratio) - 1,
        ratio,
        loss.correction.masked,
        loss.clipped,
        outside_support,
    )
    return torch.stack([column.to(logprobs.dtype) for column in columns])
