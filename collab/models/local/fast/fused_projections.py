"""Which linear layers of a model read the same input, so that one product can serve them all.

Queries, keys and values do, as a rule, and the two halves of a gated feed-forward layer. A pass
over one token tells, so no names of layers need to be known.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from collab.models.local.multi_lora import adapted_layers, can_mix, unwrapped, without_adapters

_FOUND: WeakKeyDictionary[nn.Module, list[list[nn.Linear]]] = WeakKeyDictionary()


def fused_projections(module: Any) -> list[list[nn.Module]]:
    """The linear layers of a causal language model, those together that read the same input.

    Where adapters can mix, a layer is given as PEFT has put LoRA around it.
    """
    base = unwrapped(module)
    layers = [
        m for name, m in base.named_modules() if type(m) is nn.Linear and ".lora_" not in name
    ]
    groups = _FOUND.get(base, [])
    if {layer for group in groups for layer in group} != set(layers):
        groups = _FOUND[base] = _observed(base, layers)
    adapted = adapted_layers(base) if can_mix(base) else []
    around = {layer.base_layer: layer for layer in adapted}
    return [[around.get(layer, layer) for layer in group] for group in groups]


@torch.no_grad()
def _observed(base: Any, layers: Sequence[nn.Linear]) -> list[list[nn.Linear]]:
    """Groups in the order of a forward pass; layers that it does not reach are alone."""
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
