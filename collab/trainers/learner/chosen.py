"""The sizes that a learner computes with, chosen once for each base when it first learns."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace

import torch

from collab.models.local.dimensions import dimensions_of
from collab.models.local.multi_lora import unwrapped
from collab.models.out_of_memory import free_bytes
from collab.recipe import TrainerSpec
from collab.trainers.learner.device_sizes import DeviceSizes, device_sizes
from collab.trainers.learner.policy import Policy
from collab.trainers.learner.ranks import Ranks
from collab.trainers.learner.supports_prefix_tree import supports_prefix_tree


class ChosenSizes:
    """By base model: policies of one base are learned with in the same way."""

    def __init__(self, spec: TrainerSpec, to_come: Callable[[], int], ranks: Ranks) -> None:
        """`to_come` says how many bytes the optimisers will still take."""
        self._spec, self._to_come, self._ranks = spec, to_come, ranks
        self._by_base: dict[str, DeviceSizes] = {}
        self._shares: dict[str, bool] = {}

    def of(self, policy: Policy) -> DeviceSizes:
        """The sizes of the policy's base; the policy computes twice from now on where they say so.

        What is free on a GPU is looked at once, before the first step: a run is not to change its
        micro-batches from step to step.
        """
        base = policy.engine.spec.model_dump_json()
        if base not in self._by_base:
            model, device = unwrapped(policy.engine.module), policy.device
            dimensions = dimensions_of(model.config.get_text_config(), model.dtype, device)
            own = free_bytes(device) - self._to_come()
            free = min(self._ranks.together(lambda: [own]))  # of all ranks, as they learn alike
            self._by_base[base] = device_sizes(self._spec, device, dimensions, free)
        if self._by_base[base].gradient_checkpointing and not policy.checkpointing:
            policy.compute_twice()
        return self._by_base[base]

    def halve(self, policy: Policy, largest: int) -> None:
        """Take half the tokens from now on, of those that a micro-batch had at most.

        What has failed still holds memory that is let go here.
        """
        base = policy.engine.spec.model_dump_json()
        sizes = self._by_base[base]
        tokens = max(min(sizes.micro_batch_tokens, largest) // 2, 1)
        self._by_base[base] = replace(sizes, micro_batch_tokens=tokens)
        gc.collect()
        if policy.device.type == "cuda":
            torch.cuda.empty_cache()

    def shares_rows(self, policy: Policy) -> bool:
        """Whether responses can stand in one row, which depends on the base's attention."""
        base = policy.engine.spec.model_dump_json()
        if base not in self._shares:
            with policy.training() as model:
                own = supports_prefix_tree(model, policy.device)
            self._shares[base] = all(self._ranks.together(lambda: [own]))
        return self._shares[base]
