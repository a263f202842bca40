"""One step of learning: losses and gradients by micro-batches, then the optimizers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import torch

from collab.errors import TrainingError
from collab.models.local.fast.memory import trim_memory
from collab.models.local.multi_lora import unwrap
from collab.recipe import TrainerSpec
from collab.trainers.learner.batch_sizes import BatchSizes
from collab.trainers.learner.checks import check_change, check_mismatch, fingerprint
from collab.trainers.learner.optimizer import Optimizer, rate_at
from collab.trainers.learner.passes import Passes
from collab.trainers.learner.policy import Policies, Policy
from collab.trainers.learner.prefix_tree.varlen import attention_warnings, describe_attention
from collab.trainers.learner.ranks import ALONE, Ranks
from collab.trainers.learner.samples import Sample
from collab.trainers.learner.update import NotFinite, Update, explain_memory


def updated_policies(step: int, policies: Sequence[Policy], spec: TrainerSpec) -> list[Policy]:
    """Return the policies that learn in `step`, counted from 0."""
    if spec.update_order == "alternating":
        return [policies[step // spec.alternate_every % len(policies)]]
    return list(policies)


class Learner:
    """Learns in this process: holds the policies' optimizers and takes their steps."""

    def __init__(
        self, policies: Policies, spec: TrainerSpec, total_steps: int, ranks: Ranks = ALONE
    ) -> None:
        """Make one optimizer per policy."""
        self.policies, self.spec, self.total_steps = policies, spec, total_steps
        self._ranks = ranks
        self.optimizers = {
            policy.name: Optimizer(policy.parameters.values(), spec.weight_decay)
            for policy in policies
        }
        self._changed_policies: set[str] = set()
        optimizers = self.optimizers.values()
        self._sizes = BatchSizes(spec, lambda: sum(o.unallocated_bytes for o in optimizers), ranks)
        self._passes = Passes(spec, self._sizes, self.optimizers, ranks)

    def learn(self, samples: Sequence[Sample], step: int, cancelled: Event) -> Update:
        """Learn from the responses of one step, counted from 0, and return its statistics.

        Responses with a negligible weight are skipped, unless `kl_coef` uses their divergence.

        Raises:
            TrainingError: parameters are not finite or do not change, or log-probabilities differ
                from the sampler's.
            OutOfMemory: a micro-batch does not fit.
            StepCancelled: `cancelled` was set. Parameters may have moved by a part of the step.
        """
        update = Update(rate=rate_at(step, self.total_steps, self.spec))
        for policy in updated_policies(step, list(self.policies), self.spec):
            policy_samples = [sample for sample in samples if sample.agent in policy.agents]
            learned = [sample for sample in policy_samples if sample.alive or self.spec.kl_coef]
            if learned:
                with explain_memory(partial(self._sizes.of, policy), policy.name):
                    try:
                        self._learn(policy, learned, update, cancelled)
                    except NotFinite as error:
                        update.skipped[policy.name] = self._skip_update(policy, error)
        if any(policy.device.type == "cpu" for policy in self.policies):
            trim_memory()  # otherwise learning's memory stays allocated during sampling
        return update

    def about(self) -> dict[str, Any]:
        """Return the attention of each policy, for `run.json`."""
        return {
            "attention": {
                p.name: describe_attention(*self._attention_options(p)) for p in self.policies
            }
        }

    def state(self) -> dict[str, Any]:
        """Return all state that the next step needs besides parameters, by policy."""
        return {name: optimizer.state() for name, optimizer in self.optimizers.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        for name, optimizer in self.optimizers.items():
            optimizer.restore(state[name])

    def save(self, folder: Path) -> None:
        """Write the parameters, one folder per policy."""
        for policy in self.policies:
            policy.save_parameters(folder / policy.name)

    def load(self, folder: Path) -> None:
        """Load the parameters that `save` wrote."""
        for policy in self.policies:
            policy.load_parameters(folder / policy.name)

    def _skip_update(self, policy: Policy, error: NotFinite) -> str:
        """Drop the gradients of an update that is not finite, and return why it was skipped."""
        self.optimizers[policy.name].zero_grad()
        if not all(p.isfinite().all() for p in policy.acting_parameters()):
            raise TrainingError(
                f"{error}, and so are some parameters; the policy cannot be recovered. Continue"
                " from an earlier checkpoint with a lower trainer.learning_rate or"
                " trainer.max_grad_norm, or with dtype float32"
            ) from error
        return (
            f"{error}, so collab skipped its update; if this continues, lower"
            " trainer.learning_rate, set trainer.max_grad_norm, or use dtype float32"
        )

    def _learn(
        self, policy: Policy, samples: list[Sample], update: Update, cancelled: Event
    ) -> None:
        before = None if policy.name in self._changed_policies else fingerprint(policy)
        optimizer = self.optimizers[policy.name]
        own_batches, passes = self._passes.first_epoch(policy, samples, update, cancelled)
        for epoch in range(self.spec.inner_epochs):
            if epoch:
                passes = self._passes.epoch(policy, own_batches, len(passes), cancelled)
            update.computed_tokens += sum(result.computed_tokens for result in passes)
            if epoch == 0:
                for result in passes:
                    update.add(result.responses)
                check_mismatch(policy, update, self.spec)
            norm = optimizer.step(update.rate, self.spec.max_grad_norm)
            if not math.isfinite(norm):
                raise NotFinite(f"the gradient norm of policy '{policy.name}' is {norm}")
            if epoch == 0:
                update.losses[policy.name] = sum(result.loss for result in passes)
                update.gradient_norms[policy.name] = norm
        if before is not None:
            check_change(policy, before, update)
            self._changed_policies.add(policy.name)
            update.warnings += attention_warnings(*self._attention_options(policy))

    def _attention_options(self, policy: Policy) -> tuple[Any, torch.device, str]:
        return unwrap(policy.engine.module), policy.device, self.spec.tree_attention
