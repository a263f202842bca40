"""A faster way to read a batch: fused projections, packed weights, a shared prefix, CUDA graphs.

Linear layers that read the same input become one product: usually queries, keys and values, and the
two halves of a gated feed-forward layer. They are found by a forward pass, whatever their names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from collab.models.local.fast.cuda_graph import GraphedCache
from collab.models.local.fast.equivalence import supports_shared_prefix
from collab.models.local.fast.memory import trim_memory
from collab.models.local.fast.prepacked_weights import pack_weights
from collab.models.local.fast.shared_prefix import SharedPrefixCache
from collab.models.local.kv_cache import KVCache
from collab.models.local.multi_lora import adapted_layers, can_mix, unwrap, without_adapters

_GROUPS: WeakKeyDictionary[nn.Module, list[list[nn.Linear]]] = WeakKeyDictionary()


def fused_projections(module: Any) -> list[list[nn.Module]]:
    """Return the linear layers of a causal language model, grouped by their input.

    If adapters can mix, a layer is returned with the LoRA that PEFT has put around it.
    """
    base = unwrap(module)
    layers = [
        m for name, m in base.named_modules() if type(m) is nn.Linear and ".lora_" not in name
    ]
    groups = _GROUPS.get(base, [])
    if {layer for group in groups for layer in group} != set(layers):
        groups = _GROUPS[base] = _group_by_input(base, layers)
    adapted = adapted_layers(base) if can_mix(base) else []
    around = {layer.base_layer: layer for layer in adapted}
    return [[around.get(layer, layer) for layer in group] for group in groups]


@torch.no_grad()
def _group_by_input(base: Any, layers: Sequence[nn.Linear]) -> list[list[nn.Linear]]:
    """Return the layers, grouped by the input that they read, in the order of a forward pass.

    A layer that the pass does not reach is a group by itself.
    """
    inputs: list[Tensor] = []  # held, or another could be taken for one that is gone
    groups: dict[tuple[object, ...], list[nn.Linear]] = {}
    seen: set[nn.Linear] = set()

    def note(layer: nn.Linear, read: tuple[Tensor]) -> None:
        if layer not in seen:
            seen.add(layer)
            inputs.append(read[0])
            key = id(read[0]), read[0]._version, layer.weight.dtype, layer.weight.device
            groups.setdefault(key, []).append(layer)

    with ExitStack() as stack:
        for layer in layers:
            stack.callback(layer.register_forward_pre_hook(note).remove)
        stack.enter_context(without_adapters(base))
        base(input_ids=torch.zeros(1, 1, dtype=torch.long, device=base.device))
    return [*groups.values(), *([layer] for layer in layers if layer not in seen)]


@contextmanager
def accelerated_cache(module: Any, adapters: Sequence[str]) -> Iterator[KVCache]:
    """Context manager that yields the fastest KV cache that the model supports, empty, for one
    batch."""
    cache = _cache_class(module)(module, adapters)
    row_adapters = cache.row_adapters
    head = unwrap(module).get_output_embeddings().register_forward_pre_hook(_make_contiguous)
    try:
        with (
            row_adapters.apply(module) if row_adapters else nullcontext(),
            pack_weights(fused_projections(module), row_adapters),
        ):
            yield cache
    finally:
        head.remove()
        if unwrap(module).device.type == "cpu":
            trim_memory()


def _cache_class(module: Any) -> type[KVCache]:
    if not supports_shared_prefix(module):
        return KVCache
    is_capturable = unwrap(module).device.type == "cuda" and can_mix(module)
    return GraphedCache if is_capturable else SharedPrefixCache


def _make_contiguous(head: Any, inputs: tuple[Tensor]) -> tuple[Tensor]:  # noqa: ARG001
    """Make the input contiguous: for a strided one torch multiplies per row, 200 times slower."""
    return (inputs[0].contiguous(),)
