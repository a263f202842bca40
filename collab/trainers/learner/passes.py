"""Forward and backward passes over the micro-batches of a policy's step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from collab.models.local.batching import pack
from collab.models.local.fast.memory import trim_after_layers
from collab.models.local.layers import decoder_layers
from collab.models.local.multi_lora import unwrap
from collab.models.out_of_memory import is_out_of_memory
from collab.recipe import TrainerSpec
from collab.runs import metric_names as names
from collab.trainers.learner.batch_sizes import BatchSizes
from collab.trainers.learner.logprobs import TokenScores, response_logprobs
from collab.trainers.learner.loss import TokenLoss, token_loss
from collab.trainers.learner.optimizer import Optimizer
from collab.trainers.learner.policy import Policy
from collab.trainers.learner.prefix_tree.attention import tree_attention
from collab.trainers.learner.prefix_tree.packing import PackedSequence, pack_samples, padded_tokens
from collab.trainers.learner.ranks import GradientSum, Ranks
from collab.trainers.learner.samples import Sample
from collab.trainers.learner.update import (
    KL_TOKENS,
    TOKENS,
    NotFinite,
    StepCancelled,
    TokenSums,
    Update,
)

KL_PROBES = 1
"""Number of responses per step on which KL is measured when `kl_coef` is 0."""


QUADRATIC_WIDTH = 4096
"""Row width at which attention costs as much as all work that grows with its tokens."""


def pass_cost(rows: int, width: int) -> float:
    """Return the relative cost of a pass over `rows` rows, padded to `width` tokens."""
    return rows * width * (1 + width / QUADRATIC_WIDTH)


def samples_of(rows: Sequence[PackedSequence]) -> list[Sample]:
    """Return the responses of some rows, in order."""
    return [sample for row in rows for sample in row.samples]


@dataclass
class MicroBatch:
    """Rows of one forward and backward pass, and the values to compare with, by token."""

    number: int
    """Position among the micro-batches of all ranks."""
    rows: list[PackedSequence]
    reference: Tensor | None = None
    """Log-probabilities under the reference, of the first responses if it does not have all."""
    start: Tensor | None = None
    """Log-probabilities of the first pass, once it was made."""


@dataclass
class PassResult:
    """The statistics of a forward and backward pass over one micro-batch, on the host."""

    number: int
    """Position of the micro-batch in the step."""
    computed_tokens: int
    loss: float
    responses: list[tuple[str, TokenSums]]
    """Agent and sums of each response."""


class ResponseSums:
    """Holds sums over each response's tokens in one tensor on the device. `read` waits for the
    device.

    One transfer moves all sums to the host, because reading each number would wait for the device.
    """

    def __init__(
        self,
        batch: Sequence[Sample],
        loss: TokenLoss,
        logprobs: Tensor,
        outside_support: Tensor | None = None,
    ) -> None:
        """Collect a micro-batch's sums: without `outside_support`, only the loss and the KL."""
        self._batch = batch
        columns = {}
        if outside_support is not None:
            columns = _token_metrics(loss, logprobs, outside_support)
        self._measured = 0 if loss.kl is None else len(loss.kl)
        if loss.kl is not None:
            columns[names.KL] = functional.pad(loss.kl, (0, len(logprobs) - self._measured))
        self._names, parts = list(columns), [loss.total.detach().reshape(1)]
        if columns:
            table = torch.stack([column.to(logprobs.dtype) for column in columns.values()])
            pieces = torch.split(table, [len(s.token_ids) for s in batch], dim=1)
            parts += [piece.sum(dim=1) for piece in pieces]
        self._numbers = torch.cat(parts)

    def read(self) -> tuple[float, list[tuple[str, TokenSums]]]:
        """Return the loss, and the agent and sums of each response. This waits for the device."""
        loss, *numbers = self._numbers.tolist()
        width, responses, tokens = len(self._names), [], 0
        for place, sample in enumerate(self._batch):
            sums = dict(zip(self._names, numbers[place * width :], strict=False))
            tokens += len(sample.token_ids)
            if tokens <= self._measured:
                sums[KL_TOKENS] = len(sample.token_ids)
            else:
                sums.pop(names.KL, None)
            if names.LOGPROB in sums:
                sums[TOKENS] = len(sample.token_ids)
            responses.append((sample.agent, sums))
        return loss, responses


def _token_metrics(loss: TokenLoss, logprobs: Tensor, outside_support: Tensor) -> dict[str, Tensor]:
    """Return the values of each token, by metric. Their means are metrics of its agent."""
    ratio = loss.ratio
    return {
        names.LOGPROB: logprobs,
        names.AGENT_MISMATCH: loss.mismatch,
        names.AGENT_MISMATCH_KL: ratio - torch.log(ratio) - 1,  # by the k3 estimate
        names.IMPORTANCE: ratio,
        names.MASKED: loss.masked,
        names.CLIPPED: loss.clipped,
        names.OUTSIDE_SUPPORT: outside_support,
    }


class Passes:
    """Computes the gradients of a policy's step, on all ranks."""

    def __init__(
        self,
        spec: TrainerSpec,
        sizes: BatchSizes,
        optimizers: Mapping[str, Optimizer],
        ranks: Ranks,
    ) -> None:
        self._spec, self._sizes, self._optimizers, self._ranks = spec, sizes, optimizers, ranks

    def first_epoch(
        self, policy: Policy, samples: list[Sample], update: Update, cancelled: Event
    ) -> tuple[list[MicroBatch], list[PassResult]]:
        """Lay out the micro-batches of a step, and run the passes of its first epoch over them.

        Return this rank's micro-batches, and the results of all ranks. If memory runs out, the
        epoch starts again with micro-batches of half the size. Later epochs use the size that
        fitted.
        """
        before = self._sizes.of(policy).micro_batch_tokens
        while True:
            batches = self.batches(policy, samples)
            costs = [pass_cost(len(rows), max(row.width for row in rows)) for rows in batches]
            own_places = self._ranks.assign_work(costs)[self._ranks.rank]
            mine = [MicroBatch(place, batches[place]) for place in own_places]
            try:
                passes = self.epoch(policy, mine, len(batches), cancelled)
                break
            except RuntimeError as error:
                is_smallest = all(len(samples_of(rows)) == 1 for rows in batches)
                if not is_out_of_memory(error) or is_smallest:
                    raise
            self._optimizers[policy.name].zero_grad()
            self._sizes.halve(policy, max(map(padded_tokens, batches)))
        if (now := self._sizes.of(policy).micro_batch_tokens) < before:
            update.warnings.append(
                f"out of memory while learning with policy '{policy.name}' in micro-batches of"
                f" {before:,} tokens; collab continues with {now:,}. To start with this size, set"
                f" trainer.micro_batch_tokens={now}"
            )
        return mine, passes

    def epoch(
        self, policy: Policy, mine: Sequence[MicroBatch], n_batches: int, cancelled: Event
    ) -> list[PassResult]:
        """Run the passes over `mine`, this rank's part of the `n_batches` micro-batches of a step.

        Return the results of all ranks, one per micro-batch. The gradients stay in the masters.
        """
        gradients = self._ranks.gradients(self._optimizers[policy.name].masters, n_batches)
        work = partial(self._compute, policy, mine, gradients, cancelled)
        passes = sorted(self._ranks.gather_results(work), key=lambda one: one.number)
        gradients.finish()
        return passes

    def _compute(
        self, policy: Policy, mine: Sequence[MicroBatch], gradients: GradientSum, cancelled: Event
    ) -> list[PassResult]:
        """Compute the losses of this rank's micro-batches. Their gradients stay in `gradients`."""
        self._add_references(policy, [batch for batch in mine if batch.start is None])
        passes = []
        shared = self._sizes.can_share_rows(policy)
        with (
            policy.training() as model,
            # Tree attention must also be active when checkpointed layers are recomputed.
            tree_attention(model) if shared else nullcontext(),
            trim_after_layers(decoder_layers(unwrap(model))),
        ):
            for batch in mine:
                if cancelled.is_set():
                    raise StepCancelled
                passes.append(self._run_pass(policy, model, gradients, batch))
        return passes

    def _add_references(self, policy: Policy, batches: Sequence[MicroBatch]) -> None:
        """Compute the log-probabilities under the policy before training.

        If the loss does not use them, the first `KL_PROBES` of the step suffice for the metric.
        """
        for batch in batches:
            rows = batch.rows
            if not self._spec.kl_coef:
                probes = rows[0].samples[:KL_PROBES]
                # The divergence of truncated distributions may be infinite.
                limited = any(sample.sampling.limits_tokens for sample in probes)
                if batch.number or not policy.has_reference or limited:
                    continue
                rows = [PackedSequence(probes)]
            with policy.reference() as model:
                batch.reference = self.scored(policy, model, rows).logprobs

    def _run_pass(
        self, policy: Policy, model: Any, gradients: GradientSum, batch: MicroBatch
    ) -> PassResult:
        """Compute the loss and gradients of a micro-batch. The first pass sets `batch.start`."""
        logprobs, outside_support = self.scored(policy, model, batch.rows)
        learned = samples_of(batch.rows)
        loss_tokens = token_loss(
            logprobs, learned, self._spec, start=batch.start, reference=batch.reference
        )
        first_support = outside_support if batch.start is None else None
        sums = ResponseSums(learned, loss_tokens, logprobs.detach(), first_support)
        self.backward(loss_tokens)
        gradients.add()
        loss, responses = sums.read()
        if not math.isfinite(loss):
            raise NotFinite(f"the loss of policy '{policy.name}' is {loss}")
        batch.start = logprobs.detach() if batch.start is None else batch.start
        tokens = padded_tokens(batch.rows)
        return PassResult(batch.number, tokens, loss, responses)

    def batches(self, policy: Policy, samples: Sequence[Sample]) -> list[list[PackedSequence]]:
        """Pack the samples into rows, and return the rows of each micro-batch."""
        budget = self._sizes.of(policy).micro_batch_tokens
        rows = pack_samples(samples, budget, shared=self._sizes.can_share_rows(policy))
        return [[rows[i] for i in batch] for batch in pack([(r.width, 0) for r in rows], budget)]

    def scored(self, policy: Policy, model: Any, batch: Sequence[PackedSequence]) -> TokenScores:
        """Return each response token's log-probability, and whether it was excluded: [tokens]."""
        chunk = self._sizes.of(policy).head_chunk_tokens
        return response_logprobs(model, batch, policy.device, chunk, self._spec.tree_attention)

    def backward(self, loss: TokenLoss) -> None:
        """Compute the gradients of a loss."""
        loss.total.backward()
