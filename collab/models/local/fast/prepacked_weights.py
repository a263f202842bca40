"""Products of few rows on a CPU, with weights in the layout that oneDNN multiplies fastest.

torch's linear layer rearranges its weights for every product, which takes as long as the product
itself while rows are few. Here it is done once, until the weights change. They are then in memory
twice. Layers that read the same input are multiplied as one, together with their adapters, since a
small product takes longer to start than to run.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from collab.models.local.fast.memory import MIN_PACKED_WEIGHTS
from collab.models.local.layers import Forward, replace_forwards
from collab.models.local.multi_lora import RowAdapters, StackedAdapters, base_of

MAX_PACKED_ROWS = 128
"""Most rows for packed products. Above it packing gains little, and oneDNN keeps a compiled product
per number of rows."""

SAMPLED_WEIGHTS = 64
"""Sampled weights per layer, to detect a change that torch does not count as a version."""


@contextmanager
def pack_weights(
    groups: Sequence[Sequence[Any]], row_adapters: RowAdapters | None = None
) -> Iterator[None]:
    """Context manager that lets layers multiply few rows by packed weights, each group as one
    product.

    The layers of a group read the same input. Each row is computed with its adapter in
    `row_adapters`, which must be applied. For inference only. On a processor without such a layout,
    the layers are not changed.
    """
    fusions = [_Fusion(layers, row_adapters) for layers in groups if _can_pack_group(layers)]
    fusion_of = {layer: fusion for fusion in fusions for layer in fusion.layers}
    with replace_forwards(list(fusion_of), lambda layer: _fused_forward(layer, fusion_of[layer])):
        yield


def can_pack(dtype: torch.dtype, device: torch.device) -> bool:
    """Return True if torch can pack weights of this dtype on this device: float32 or bfloat16 on
    x86.
    """
    if device.type != "cpu" or platform.machine() not in ("x86_64", "AMD64"):
        return False
    if not torch.backends.mkldnn.is_available():
        return False
    if dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return dtype == torch.float32


def _can_pack_group(layers: Sequence[Any]) -> bool:
    weights = [base_of(layer).weight for layer in layers]
    large = sum(weight.numel() for weight in weights) >= MIN_PACKED_WEIGHTS
    return large and can_pack(weights[0].dtype, weights[0].device)


def _fused_forward(layer: Any, fusion: _Fusion) -> Forward:
    """Return the forward pass of one layer in a group."""
    unfused: Forward = layer.forward

    def forward(x: Tensor) -> Tensor:
        many = x.numel() > MAX_PACKED_ROWS * x.shape[-1]
        y: Tensor = unfused(x) if many else fusion.answer(x, layer)
        return y

    return forward


class _Fusion:
    """Runs the layers of a group as one: the first one called computes the product for all."""

    def __init__(self, layers: Sequence[Any], row_adapters: RowAdapters | None) -> None:
        self._bases = [base_of(layer) for layer in layers]
        self.layers, self._row_adapters = layers, row_adapters
        self._bias = _bias_of(self._bases)
        self._widths = [len(base.weight) for base in self._bases]
        self._last_input: Tensor | None = None
        self._pieces: dict[Any, Tensor] = {}  # of layers that were not asked yet

    def answer(self, x: Tensor, layer: Any) -> Tensor:
        """Return the output of `layer`, [..., out], for `x`, [..., in]."""
        if layer not in self._pieces or self._last_input is not x:
            pieces = torch.split(self._product(x.contiguous()), self._widths, dim=-1)
            self._pieces = dict(zip(self.layers, pieces, strict=True))
            self._last_input = x
        piece = self._pieces.pop(layer)
        if not self._pieces:
            self._last_input = None
        return piece.contiguous()

    def _product(self, x: Tensor) -> Tensor:
        y = _multiply_packed(x, self._packed, self._bias)
        if self._row_adapters is None or self._adapters is None:
            return y
        ranks, down, up = self._adapters
        inner = self._row_adapters.mask_output(_multiply_packed(x, down), ranks)
        added: Tensor = torch.ops.mkldnn._linear_pointwise.binary(inner, y, up, None, "add")
        return added

    @cached_property
    def _packed(self) -> Tensor:
        return _packed_weights(self._bases)

    @cached_property
    def _adapters(self) -> StackedAdapters | None:
        """The rows' adapters on the layers, with A packed, and B transposed and packed."""
        assert self._row_adapters is not None
        adapters = self._row_adapters.stack(self.layers, self._bases[0].weight.dtype)
        if adapters is None:
            return None
        return StackedAdapters(adapters.ranks, _pack(adapters.down), _pack(adapters.up.T))


_PACKED_GROUPS: WeakKeyDictionary[nn.Linear, tuple[object, Tensor, list[Tensor]]] = (
    WeakKeyDictionary()
)
"""State, packed weights and weights of a group, by its first layer.

The weights are held so that no others get their addresses, which are part of the state.
"""


def _packed_weights(layers: Sequence[nn.Linear]) -> Tensor:
    """Return the stacked weights of some layers, [out, in], packed again only if they changed."""
    weights = [layer.weight.detach() for layer in layers]
    state = [_weight_state(weight) for weight in weights]
    if (held := _PACKED_GROUPS.pop(layers[0], None)) is None or held[0] != state:
        held = None  # the old copy is freed before the new one is made
        held = state, _pack(torch.cat(weights) if len(weights) > 1 else weights[0]), weights
    _PACKED_GROUPS[layers[0]] = held
    return held[1]


def _weight_state(weight: Tensor) -> tuple[object, ...]:
    """Return a value that changes when the weights do."""
    step = weight.numel() // SAMPLED_WEIGHTS | 1  # odd, or all samples were of one column
    sample = weight.flatten()[::step]
    return weight.data_ptr(), weight._version, *sample.tolist()


def _bias_of(layers: Sequence[nn.Linear]) -> Tensor | None:
    """Return the stacked bias, [out], or None if no layer has a bias."""
    if all(layer.bias is None for layer in layers):
        return None
    biases = (
        layer.weight.new_zeros(len(layer.weight)) if layer.bias is None else layer.bias
        for layer in layers
    )
    return torch.cat(list(biases)).detach()


def _pack(weights: Tensor) -> Tensor:
    """Pack [out, in] into the layout for products of few rows."""
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weights.contiguous(), MAX_PACKED_ROWS)
    return packed


def _multiply_packed(x: Tensor, weights: Tensor, bias: Tensor | None = None) -> Tensor:
    """Multiply [..., in] by packed weights: [..., out]."""
    y: Tensor = torch.ops.mkldnn._linear_pointwise(x, weights, bias, "none", [], "")
    return y
