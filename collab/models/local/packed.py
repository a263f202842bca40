"""Products of few rows on a CPU, by weights in the layout that oneDNN multiplies fastest.

A linear layer as torch computes it lays its weights out anew for every product, which takes as
long as the product itself while rows are few. Here that is done once, until the weights change:
they are then in memory twice.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeGuard
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from collab.models.local.forwards import replaced

MOST_ROWS = 128
"""Above it packing gains little, and oneDNN keeps a compiled product for every number of rows."""

LEAST_WEIGHTS = 1 << 16
"""Below it a product is over before packing pays."""

SAMPLES = 64
"""Weights of a layer that are looked at for a change which torch does not count as a version."""


@contextmanager
def packed(module: nn.Module) -> Iterator[None]:
    """While entered, linear layers of `module` multiply few rows by packed weights. No gradients.

    Where the processor has no such layout, layers are left as they are.
    """
    layers = [layer for layer in module.modules() if _can_pack(layer)]
    with replaced(layers, _packed):
        yield


def can_pack(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether weights of this type are packed there."""
    if device.type != "cpu" or platform.machine() not in ("x86_64", "AMD64"):
        return False
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    if dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return dtype == torch.float32


def weights_to_pack(module: nn.Module) -> int:
    """How many weights of `module` are packed where that can be done."""
    return sum(layer.weight.numel() for layer in module.modules() if _is_large(layer))


def _can_pack(layer: nn.Module) -> TypeGuard[nn.Linear]:
    return _is_large(layer) and can_pack(layer.weight.dtype, layer.weight.device)


def _is_large(layer: nn.Module) -> TypeGuard[nn.Linear]:
    return type(layer) is nn.Linear and layer.weight.numel() >= LEAST_WEIGHTS


class _Packed:
    """The forward pass of one layer."""

    def __init__(self, layer: nn.Linear) -> None:
        self._weight, self._bias = layer.weight, layer.bias
        self._state = _state(layer)
        self._packed: Tensor | None = None

    def is_of(self, layer: nn.Linear) -> bool:
        return self._state == _state(layer)

    def __call__(self, x: Tensor) -> Tensor:
        if x.numel() > MOST_ROWS * x.shape[-1]:
            return nn.functional.linear(x, self._weight, self._bias)
        if self._packed is None:
            weight = self._weight.detach()
            self._packed = torch.ops.mkldnn._reorder_linear_weight(weight, MOST_ROWS)
        y: Tensor = torch.ops.mkldnn._linear_pointwise(
            x.contiguous(), self._packed, self._bias, "none", [], ""
        )
        return y


_PACKED: WeakKeyDictionary[nn.Linear, _Packed] = WeakKeyDictionary()


def _packed(layer: nn.Linear) -> _Packed:
    held = _PACKED.get(layer)
    if held is None or not held.is_of(layer):
        held = _PACKED[layer] = _Packed(layer)
    return held


def _state(layer: nn.Linear) -> tuple[object, ...]:
    """Changes when the layer's weights do."""
    weight = layer.weight.detach()
    sample = weight.flatten()[:: weight.numel() // SAMPLES | 1]  # odd, or all were of one column
    return weight.data_ptr(), layer.weight._version, id(layer.bias), *sample.tolist()
