"""LoRA in a forward pass: rows of one batch under different adapters, or one with gradients.

For rows under different adapters, a layer's adapters are stacked: A is [ranks, in], B is [out,
ranks], and a mask [rows, 1, ranks] removes other rows' adapters from each row. So a layer costs two
more products for any number of adapters, where PEFT's own mixed batches loop over them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from collab.models.local.layers import Forward, replace_forwards

NO_ADAPTER = "__base__"
"""PEFT's name for a row without an adapter."""

AdapterRanks = tuple[tuple[str, int], ...]
"""Names and ranks of adapters, in order."""


class StackedAdapters(NamedTuple):
    """Adapters of one layer, or of layers with the same input, stacked along their ranks."""

    ranks: AdapterRanks
    down: Tensor  # A, [ranks, in]
    up: Tensor  # B with its scaling, [ranks, out]: of the layers, one after the other


class RowAdapters:
    """The adapter of each row of a batch."""

    def __init__(self, rows: Sequence[str]) -> None:
        self.rows = list(rows)
        self.names = sorted(set(rows) - {NO_ADAPTER})
        self._masks: dict[tuple[AdapterRanks, torch.dtype], Tensor | None] = {}

    def select(self, keep: Sequence[int]) -> None:
        """Keep the rows with these indices, in this order."""
        self.rows = [self.rows[row] for row in keep]
        self._masks.clear()

    def mask(self, ranks: AdapterRanks, like: Tensor) -> Tensor | None:
        """Return the mask of ranks that each row uses, [rows, 1, ranks], or None if every row uses
        all.
        """
        key = ranks, like.dtype
        if key not in self._masks:
            owners = [name for name, rank in ranks for _ in range(rank)]
            owned = [[float(row == owner) for owner in owners] for row in self.rows]
            uses_all = all(all(row) for row in owned)
            mask = None if uses_all else torch.tensor(owned, dtype=like.dtype, device=like.device)
            self._masks[key] = None if mask is None else mask[:, None, :]
        return self._masks[key]

    def mask_output(self, inner: Tensor, ranks: AdapterRanks) -> Tensor:
        """Return A's output `inner` with 0 for the adapters of other rows.

        `inner` is [rows, ..., ranks], or [rows * time, ranks] in a model such as OPT.
        """
        mask = self.mask(ranks, inner)
        if mask is None:
            return inner
        return (inner.view(len(self.rows), -1, inner.shape[-1]) * mask).view_as(inner)

    def stack(self, layers: Sequence[Any], dtype: torch.dtype) -> StackedAdapters | None:
        """Return the rows' adapters of `layers`, stacked, or None if no adapter changes these
        layers.
        """
        ranks: list[tuple[str, int]] = []
        downs, ups = [], []
        for layer in layers:
            names = [name for name in self.names if name in getattr(layer, "lora_A", ())]
            weights = [layer.lora_A[name].weight for name in names]
            ranks += [(name, len(down)) for name, down in zip(names, weights, strict=True)]
            downs += weights
            up = [layer.lora_B[name].weight.T * layer.scaling[name] for name in names]
            base = base_of(layer)
            empty = torch.zeros(0, base.out_features, dtype=dtype, device=base.weight.device)
            ups.append(torch.cat(up) if up else empty)
        if not ranks:
            return None
        down, up = torch.cat(downs), torch.block_diag(*ups)
        return StackedAdapters(tuple(ranks), down.detach().to(dtype), up.detach().to(dtype))

    @contextmanager
    def apply(self, module: nn.Module) -> Iterator[None]:
        """Context manager in which `module` computes each row with the row's own adapter. For
        inference only."""
        with replace_forwards(adapted_layers(module), lambda layer: _mixed_forward(layer, self)):
            yield


def _mixed_forward(layer: Any, row_adapters: RowAdapters) -> Forward:
    """Return the forward pass of one layer with several adapters."""
    stacked = cache(partial(row_adapters.stack, [layer]))

    def forward(x: Tensor) -> Tensor:
        y: Tensor = layer.base_layer(x)  # [rows, time, out]
        adapters = stacked(x.dtype)
        if adapters is not None:
            inner = row_adapters.mask_output(functional.linear(x, adapters.down), adapters.ranks)
            y.view(-1, y.shape[-1]).addmm_(inner.view(-1, inner.shape[-1]), adapters.up)
        return y

    return forward


@contextmanager
def one_adapter(module: nn.Module, name: str) -> Iterator[None]:
    """Context manager in which `module` computes with the adapter `name`, in the base's dtype and
    with gradients.

    PEFT computes an adapter in the adapter's own dtype. In the base's dtype it matches the sampler,
    and is a third faster if the base is in bfloat16.
    """
    changed = [layer for layer in adapted_layers(module) if name in layer.lora_A]
    for layer in changed:
        for part in (layer.lora_A[name], layer.lora_B[name]):
            part.weight.requires_grad_(True)
    with (
        without_adapters(module),  # PEFT's active adapter may be another one
        replace_forwards(changed, lambda layer: _single_forward(layer, name)),
    ):
        yield


@contextmanager
def without_adapters(module: nn.Module) -> Iterator[None]:
    """Context manager in which `module` computes without adapters."""
    with replace_forwards(adapted_layers(module), lambda layer: layer.base_layer):
        yield


def _single_forward(layer: Any, name: str) -> Forward:
    """Return the forward pass of one layer under one adapter."""
    base, scaling = layer.base_layer, layer.scaling[name]
    down, up = layer.lora_A[name].weight, layer.lora_B[name].weight

    def forward(x: Tensor) -> Tensor:
        dtype = compute_dtype(base, x)
        flat = x.reshape(-1, x.shape[-1])
        inner = functional.linear(flat, down.to(dtype))
        scaled = (up * scaling).to(dtype)
        y: Tensor = base(flat)
        if base.weight.dtype.is_floating_point:
            y.addmm_(inner, scaled.T)
        else:  # the output of bitsandbytes may be a view
            y = torch.addmm(y, inner, scaled.T)
        return y.view(*x.shape[:-1], -1)

    return forward


def unwrap(module: Any) -> Any:
    """Return the language model inside PEFT's wrapper, or the module itself."""
    return module.get_base_model() if hasattr(module, "get_base_model") else module


def adapted_layers(module: nn.Module) -> list[Any]:
    """Return the layers that PEFT has wrapped with LoRA."""
    return [part for part in module.modules() if "lora_A" in part._modules]


def base_of(layer: Any) -> Any:
    """Return the layer inside a LoRA wrapper, or the layer itself."""
    return getattr(layer, "base_layer", layer)


def merge(module: Any, name: str) -> Any:
    """Add the adapter `name` to the weights of the language model, and return the model.

    If adapters change the embeddings or the head, these no longer share their weights.
    """
    model = unwrap(module)
    embeddings, head = model.get_input_embeddings(), model.get_output_embeddings()
    if base_of(embeddings) is not embeddings or base_of(head) is not head:
        base_of(head).weight = nn.Parameter(base_of(head).weight.detach().clone())
        model.config.tie_word_embeddings = False
    return module.merge_and_unload(safe_merge=True, adapter_names=[name])


def compute_dtype(base: Any, x: Tensor) -> torch.dtype:
    """Return the dtype in which a linear layer and its adapters compute: that of its weights, or,
    if they are quantized, of the input `x`."""
    dtype: torch.dtype = base.weight.dtype
    return dtype if dtype.is_floating_point else x.dtype


def can_mix(module: nn.Module) -> bool:
    """Return True if rows with different adapters can share a batch: all adapters are plain LoRA on
    linear layers.
    """
    has_full_layers = any("original_module" in part._modules for part in module.modules())
    return not has_full_layers and all(map(_is_plain, adapted_layers(module)))


def _is_plain(layer: Any) -> bool:
    extras = getattr(layer, "lora_variant", {})
    biases = any(part.bias is not None for part in layer.lora_B.values())
    return isinstance(layer.base_layer, nn.Linear) and not (extras or biases or layer.merged)
