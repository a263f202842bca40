"""The sizes with which a learner computes, chosen once per base model at the first step."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from collab.models.local.dimensions import dimensions_of, has_full_attention
from collab.models.local.fast.equivalence import (
    PROBE_ERRORS,
    LayerStates,
    are_equivalent,
    layer_states,
)
from collab.models.local.multi_lora import unwrap
from collab.models.out_of_memory import free_bytes
from collab.recipe import TrainerSpec
from collab.records import Sampling
from collab.trainers.learner.device_sizes import DeviceSizes, device_sizes
from collab.trainers.learner.logprobs import response_states
from collab.trainers.learner.policy import Policy
from collab.trainers.learner.prefix_tree.packing import PackedSequence
from collab.trainers.learner.ranks import Ranks
from collab.trainers.learner.samples import Sample


class BatchSizes:
    """Holds the sizes for each base model. Policies with the same base use the same sizes."""

    def __init__(self, spec: TrainerSpec, unallocated: Callable[[], int], ranks: Ranks) -> None:
        """Start without sizes. `unallocated` returns what the optimizers will still allocate."""
        self._spec, self._unallocated, self._ranks = spec, unallocated, ranks
        self._by_base: dict[str, DeviceSizes] = {}
        self._can_share: dict[str, bool] = {}

    def of(self, policy: Policy) -> DeviceSizes:
        """Return the sizes for a policy's base model. Gradient checkpointing is enabled if the
        sizes require it.

        A GPU's free memory is measured once, before the first step, because a run must not change
        its micro-batches from step to step.
        """
        base = policy.engine.spec.model_dump_json()
        if base not in self._by_base:
            model, device = unwrap(policy.engine.module), policy.device
            dimensions = dimensions_of(model.config.get_text_config(), model.dtype.itemsize)
            left = free_bytes(device) - self._unallocated()
            free = min(self._ranks.gather_results(lambda: [left]))  # all ranks need the same sizes
            self._by_base[base] = device_sizes(self._spec, device.type, dimensions, free)
        if self._by_base[base].gradient_checkpointing and not policy.checkpointing:
            policy.enable_gradient_checkpointing()
        return self._by_base[base]

    def halve(self, policy: Policy, largest: int) -> None:
        """Halve the size of micro-batches, relative to the largest one so far.

        This also releases the memory of the failed pass.
        """
        base = policy.engine.spec.model_dump_json()
        sizes = self._by_base[base]
        tokens = max(min(sizes.micro_batch_tokens, largest) // 2, 1)
        self._by_base[base] = replace(sizes, micro_batch_tokens=tokens)
        gc.collect()
        if policy.device.type == "cuda":
            torch.cuda.empty_cache()

    def can_share_rows(self, policy: Policy) -> bool:
        """Return True if the attention of a policy's base model lets responses share a row."""
        base = policy.engine.spec.model_dump_json()
        if base not in self._can_share:
            with policy.training() as model:
                agrees = supports_prefix_tree(model, policy.device)
            self._can_share[base] = all(self._ranks.gather_results(lambda: [agrees]))
        return self._can_share[base]


PROBE_RESPONSES, PROBE_TOKENS = 8, 4
"""Number of siblings in the probe, and tokens of each and of their prompt."""


def supports_prefix_tree(model: Any, device: torch.device) -> bool:
    """Return True if responses can share a row with their common beginning.

    They cannot if attention is windowed or modifies its scores, or if the model has recurrent
    states. If the configuration does not show this, a probe decides.
    """
    return has_full_attention(model.config.get_text_config()) and _probe_agrees(model, device)


@torch.no_grad()
def _probe_agrees(model: Any, device: torch.device) -> bool:
    """Return True if layers give siblings in one row the same states as in separate rows."""
    row = _probe(model.config.get_text_config().vocab_size)
    paths = row.tree.paths
    separate_inputs: list[Tensor] = []

    def replace_inputs(inputs: Tensor) -> Tensor:
        """Return the row's states, [1, time, hidden], copied from the siblings in separate rows."""
        row_states, sibling_states = inputs.clone(), separate_inputs.pop(0)
        for sibling, path in enumerate(paths):
            row_states[0, path] = sibling_states[sibling, : len(path)]
        return row_states

    try:
        with layer_states(unwrap(model)) as separate_layers:
            response_states(model, [PackedSequence([sample]) for sample in row.samples], device)
        separate_inputs += [layer.inputs for layer in separate_layers]
        with layer_states(unwrap(model), replace_inputs) as packed_layers:
            response_states(model, [row], device)
    except PROBE_ERRORS:
        return False
    # `path_index` maps [1, time, hidden] to [siblings, time, hidden].
    path_index = torch.tensor(paths, device=device)
    return are_equivalent(
        [LayerStates(*(x[0, path_index] for x in layer)) for layer in packed_layers],
        [LayerStates(*(x[:, : len(paths[0])] for x in layer)) for layer in separate_layers],
    )


def _probe(vocabulary: int) -> PackedSequence:
    def tokens(start: int) -> tuple[int, ...]:
        return tuple((start + 7 * n) % vocabulary for n in range(PROBE_TOKENS))

    prompt = tokens(0)
    return PackedSequence(
        [
            Sample("", prompt, tokens(n + 1), (0.0,) * PROBE_TOKENS, Sampling(), 1.0, 1.0)
            for n in range(PROBE_RESPONSES)
        ]
    )
