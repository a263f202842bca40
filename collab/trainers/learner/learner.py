"""One step of learning: losses and gradients by micro-batches, then the optimisers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import torch
from torch import Tensor

from collab.errors import TrainingError
from collab.models.local.batching import pack
from collab.models.local.fast.memory import trim, trimmed
from collab.models.local.layers import decoder_layers
from collab.models.local.multi_lora import unwrapped
from collab.recipe import TrainerSpec
from collab.trainers.learner.checks import check_change, check_mismatch, fingerprint
from collab.trainers.learner.chosen import ChosenSizes
from collab.trainers.learner.device_sizes import forward_tokens
from collab.trainers.learner.failures import Cancelled, NotFinite, memory_told
from collab.trainers.learner.logprobs import Scored, response_logprobs
from collab.trainers.learner.loss import TokenLoss, token_loss
from collab.trainers.learner.optimiser import Optimiser, rate_at
from collab.trainers.learner.policy import Policies, Policy
from collab.trainers.learner.policy_logprobs import logprobs_of
from collab.trainers.learner.prefix_tree.attention import tree_attention
from collab.trainers.learner.prefix_tree.packing import PackedSequence, packed_sequences, width
from collab.trainers.learner.prefix_tree.varlen import attention_told, slow_attention
from collab.trainers.learner.ranks import ALONE, GradientSum, Ranks, cost_of
from collab.trainers.learner.samples import Sample
from collab.trainers.learner.supports_prefix_tree import supports_prefix_tree
from collab.trainers.learner.update import MicroBatch, Pass, Share, Tally, Update
from collab.trainers.learner.update_order import CompoundRatios, learned_by, updated_at
from collab.trainers.learner.weights_to_sampler import publish, sleep

KL_PROBES = 1
"""Responses of a step whose divergence from the reference is told if the loss has no use for it."""

PADDING: list[PackedSequence] = [[Sample("", (0,), (0,), (0.0,), 1.0, weight=0.0, scale=0.0)]]
"""The rows of a pass that a rank makes only as others make one."""


class TorchLearner:
    """Learns in this process: holds the optimisers of the policies and takes their steps."""

    def __init__(
        self,
        policies: Policies,
        spec: TrainerSpec,
        total_steps: int,
        seed: int = 0,
        ranks: Ranks = ALONE,
    ) -> None:
        """`seed` is that of the run, from which a random order of updates is drawn."""
        self.policies, self.spec, self.total_steps = policies, spec, total_steps
        self._seed, self._ranks = seed, ranks
        self.optimisers = {
            policy.name: Optimiser(policy.parameters.values(), spec.weight_decay)
            for policy in policies
        }
        self._seen_to_change: set[str] = set()
        self._shares: dict[str, bool] = {}
        self._sizes = ChosenSizes(spec, self._to_come, ranks)

    def learn(self, samples: Sequence[Sample], step: int, cancelled: Event) -> Update:
        """Learn from the responses of one step, counted from 0.

        Responses without weight are not computed, unless their divergence counts.

        Raises:
            TrainingError: parameters that are not finite, log-probabilities that are not the
                sampler's, parameters that do not change.
            OutOfMemory: a micro-batch does not fit.
            Cancelled: `cancelled` was set.
        """
        update = Update(rate=rate_at(step, self.total_steps, self.spec))
        order = updated_at(step, list(self.policies), self.spec, self._seed)
        ratios = CompoundRatios(self.spec, self._measure)
        for place, policy in enumerate(order):
            own = learned_by(policy, ratios.weighed(samples), self.spec)
            if own:
                ratios.tell(update, policy, own)
                watched = ratios.following(policy, samples, later=order[place + 1 :])
                with memory_told(self._sizes.of(policy), policy.name), watched:
                    self._learn_or_skip(policy, own, update, cancelled)
        if any(policy.device.type == "cpu" for policy in self.policies):
            trim()  # or what learning has left is still there while the next step is sampled
        return update

    async def publish(self) -> bool:
        """As `Learner.publish`."""
        return await publish(self.policies)

    async def sleep(self) -> None:
        """As `Learner.sleep`."""
        await sleep(self.policies)

    def about(self) -> dict[str, Any]:
        """As `Learner.about`: the attention of each policy."""
        return {"attention": {p.name: attention_told(*self._attending(p)) for p in self.policies}}

    def state(self) -> dict[str, Any]:
        """As `Learner.state`: the optimisers' moments, by policy."""
        return {name: optimiser.state() for name, optimiser in self.optimisers.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """As `Learner.restore`."""
        for name, optimiser in self.optimisers.items():
            optimiser.restore(state[name])

    def save(self, folder: Path) -> None:
        """As `Learner.save`."""
        for policy in self.policies:
            policy.save_parameters(folder / policy.name)

    def load(self, folder: Path) -> None:
        """As `Learner.load`."""
        for policy in self.policies:
            policy.load_parameters(folder / policy.name)

    def _measure(self, policy: Policy, samples: Sequence[Sample]) -> list[float]:
        budget = forward_tokens(self.spec, policy.device)
        return [sum(row) for row in logprobs_of(policy, samples, budget)]

    def _learn_or_skip(
        self, policy: Policy, samples: list[Sample], update: Update, cancelled: Event
    ) -> None:
        """Learn; where a loss or gradient is not finite, leave the policy as it was before it."""
        try:
            self._learn(policy, samples, update, cancelled)
        except NotFinite as error:
            self.optimisers[policy.name].forget()
            if not all(p.isfinite().all() for p in policy.acting_parameters()):
                raise TrainingError(
                    f"{error}, and so are parameters of it: nothing can be learned any more. Go on"
                    " from an earlier checkpoint, with a lower trainer.learning_rate, or"
                    " trainer.max_grad_norm, or dtype float32"
                ) from error
            update.skipped[policy.name] = (
                f"{error}, so no step was taken by it; where that lasts, lower"
                " trainer.learning_rate, set trainer.max_grad_norm, or take dtype float32"
            )

    def _learn(
        self, policy: Policy, samples: list[Sample], update: Update, cancelled: Event
    ) -> None:
        before = None if policy.name in self._seen_to_change else fingerprint(policy)
        batches, optimiser = self._batches(policy, samples), self.optimisers[policy.name]
        share = self._share(policy, batches)
        for epoch in range(self.spec.inner_epochs):
            gradients = self._ranks.gradients(optimiser.masters, len(batches))
            compute = self._compute_first if epoch == 0 else self._compute
            work = partial(compute, policy, share, gradients, cancelled)
            passes = sorted(self._ranks.together(work), key=lambda one: one.number)
            gradients.finish()
            update.computed_tokens += sum(one.computed_tokens for one in passes)
            if epoch == 0:
                for one in passes:
                    one.add_to(update)
                check_mismatch(policy, update, passes, self.spec, self._ranks.world)
            norm = optimiser.step(update.rate, self.spec.max_grad_norm)
            if not math.isfinite(norm):
                raise NotFinite(f"the gradient norm of policy '{policy.name}' is {norm}")
            if epoch == 0:
                update.losses[policy.name] = sum(one.loss for one in passes)
                update.gradient_norms[policy.name] = norm
        if before is not None:
            check_change(policy, before, update)
            self._seen_to_change.add(policy.name)
            update.warnings += slow_attention(*self._attending(policy))

    def _share(self, policy: Policy, batches: Sequence[list[PackedSequence]]) -> Share:
        """What this rank computes, with the reference's log-probabilities where they count."""
        dealt = self._ranks.deal([cost_of(len(rows), max(map(width, rows))) for rows in batches])
        own = [MicroBatch(place, batches[place]) for place in dealt[self._ranks.rank]]
        share = Share(own, max(map(len, dealt)), self._probes(policy, batches[0]))
        if self.spec.kl_coef:
            rows = [batch.rows for batch in own]
            for batch, found in zip(own, self._references(policy, rows, share.most), strict=True):
                batch.reference = found
        return share

    def _compute(
        self, policy: Policy, share: Share, gradients: GradientSum, cancelled: Event
    ) -> list[Pass]:
        """The losses of this rank's micro-batches, whose gradients are left in `gradients`."""

        def check() -> None:
            if cancelled.is_set():
                raise Cancelled

        with (
            policy.training(compiled=self.spec.compile_layers) as model,
            self._attention(policy, model),
            trimmed(decoder_layers(unwrapped(model))),
        ):
            work = partial(self._pass, policy, model, gradients)
            pad = partial(self._padding_pass, policy, model)
            return self._ranks.pass_by_pass(share.own, share.most, work, pad, check)

    def _pass(self, policy: Policy, model: Any, gradients: GradientSum, batch: MicroBatch) -> Pass:
        with self._ranks.passing():
            logprobs, outside_support = self._scored(policy, model, batch.rows)
            learned = [sample for row in batch.rows for sample in row]
            found = token_loss(
                logprobs, learned, self.spec, start=batch.start, reference=batch.reference
            )
            first = outside_support if batch.start is None else None
            tally = Tally(learned, found, logprobs.detach(), first)
            self._backward(policy, found)
        gradients.add()
        tallied = tally.read()
        if not math.isfinite(tallied.loss):
            raise NotFinite(f"the loss of policy '{policy.name}' is {tallied.loss}")
        tokens = len(batch.rows) * max(map(width, batch.rows))
        batch.start = logprobs.detach() if batch.start is None else batch.start
        return Pass(batch.number, self._ranks.rank, tokens, [tallied])

    def _padding_pass(self, policy: Policy, model: Any) -> None:
        """A pass that nothing is learned from, beside other ranks that have a micro-batch left."""
        with self.optimisers[policy.name].untouched(), self._ranks.passing():
            scored = self._scored(policy, model, PADDING)
            scored.logprobs.sum().backward()  # type: ignore[no-untyped-call]

    def _compute_first(self, policy: Policy, share: Share, *others: Any) -> list[Pass]:
        """As `_compute`; and the divergence of a few responses, by the rank that has the first."""
        passes = self._compute(policy, share, *others)
        if share.probes:
            first = [batch for batch in share.own if batch.number == 0]
            found = self._references(policy, [[share.probes] for _ in first], 1)
            for batch, reference in zip(first, found, strict=True):
                assert batch.start is not None, "its pass was made"
                logprobs = batch.start[: len(reference)]
                loss = token_loss(logprobs, share.probes, self.spec, reference=reference)
                passes[0].tallied.append(Tally(share.probes, loss, logprobs).read())
        return passes

    def _batches(self, policy: Policy, samples: Sequence[Sample]) -> list[list[PackedSequence]]:
        """The rows of each micro-batch."""
        budget = self._sizes.of(policy).micro_batch_tokens
        rows = packed_sequences(samples, budget, shared=self._supports_prefix_tree(policy))
        return [[rows[i] for i in batch] for batch in pack([(width(r), 0) for r in rows], budget)]

    def _to_come(self) -> int:
        return sum(optimiser.to_come for optimiser in self.optimisers.values())

    def _scored(self, policy: Policy, model: Any, batch: Sequence[PackedSequence]) -> Scored:
        chunk = self._sizes.of(policy).head_chunk_tokens
        return response_logprobs(model, batch, policy.device, chunk, self.spec.tree_attention)

    def _supports_prefix_tree(self, policy: Policy) -> bool:
        """The policies of one base share the answer, which is its attention's."""
        base = policy.engine.spec.model_dump_json()
        if base not in self._shares:
            with policy.training() as model:
                own = supports_prefix_tree(model, policy.device)
            self._shares[base] = all(self._ranks.together(lambda: [own]))
        return self._shares[base]

    def _attending(self, policy: Policy) -> tuple[Any, torch.device, str]:
        return unwrapped(policy.engine.module), policy.device, self.spec.tree_attention

    def _attention(self, policy: Policy, model: Any) -> AbstractContextManager[None]:
        """That of the forward passes, for what backward passes compute again."""
        return tree_attention(model) if self._supports_prefix_tree(policy) else nullcontext()

    def _backward(self, policy: Policy, found: TokenLoss) -> None:
        if not found.total.requires_grad:
            raise TrainingError(
                f"the loss of policy '{policy.name}' does not depend on its parameters: they are"
                " frozen in the model"
            )
        found.total.backward()  # type: ignore[no-untyped-call]

    def _references(
        self, policy: Policy, pieces: Sequence[Sequence[PackedSequence]], most: int
    ) -> list[Tensor]:
        """Log-probabilities of the responses of each piece under the policy before training."""

        def score(rows: Sequence[PackedSequence]) -> Tensor:
            with policy.reference() as model, self._ranks.passing():
                return self._scored(policy, model, rows).logprobs

        return self._ranks.pass_by_pass(pieces, most, score, partial(score, PADDING))

    def _probes(self, policy: Policy, batch: Sequence[PackedSequence]) -> PackedSequence:
        """The responses whose divergence is measured although the loss has no use for it."""
        probes = batch[0][:KL_PROBES]
        # Truncated distributions may leave out each other's tokens: their divergence is infinite.
        if self.spec.kl_coef or not policy.has_reference or any(s.truncated for s in probes):
            return []
        return probes
