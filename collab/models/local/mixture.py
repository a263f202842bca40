"""LoRA in a forward pass: rows of one batch under different adapters, or one with gradients.

In a mixture the adapters of a layer are laid side by side: A is [ranks, in], B is [out, ranks],
and a mask [rows, 1, ranks] takes from each row what is not its own. So a layer costs two more
products whatever the number of adapters, where PEFT's own mixed batches loop over them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from collab.models.local.forwards import replaced

BASE = "__base__"
"""PEFT's name for a row that no adapter touches."""


class Mixture:
    """The adapter of each row of a batch; `select` goes on with some of the rows."""

    def __init__(self, rows: Sequence[str]) -> None:
        self.rows = list(rows)
        self.names = sorted(set(rows) - {BASE})
        self._masks: dict[tuple[tuple[str, int], ...], Tensor | None] = {}

    def select(self, keep: Sequence[int]) -> None:
        self.rows = [self.rows[row] for row in keep]
        self._masks.clear()

    def mask(self, ranks: tuple[tuple[str, int], ...], like: Tensor) -> Tensor | None:
        """[rows, 1, ranks]; None where every row takes the whole."""
        if ranks not in self._masks:
            owners = [name for name, rank in ranks for _ in range(rank)]
            own = [[float(row == owner) for owner in owners] for row in self.rows]
            whole = all(all(row) for row in own)
            mask = None if whole else torch.tensor(own, dtype=like.dtype, device=like.device)
            self._masks[ranks] = None if mask is None else mask[:, None, :]
        return self._masks[ranks]

    @contextmanager
    def applied(self, module: nn.Module) -> Iterator[None]:
        """While entered, `module` answers each row under its adapter. For inference only."""
        with replaced(adapted_layers(module), lambda layer: _Mixed(layer, self)):
            yield


class _Mixed:
    """The forward pass of one layer."""

    def __init__(self, layer: Any, mixture: Mixture) -> None:
        self._base, self._mixture = layer.base_layer, mixture
        names = [name for name in mixture.names if name in layer.lora_A]
        self._ranks = tuple((name, layer.lora_A[name].weight.shape[0]) for name in names)
        self._pair = _side_by_side(layer, names) if names else None

    def __call__(self, x: Tensor) -> Tensor:
        y: Tensor = self._base(x)  # [rows, time, out]
        if self._pair is None:
            return y
        down, up = self._pair
        inner = functional.linear(x, down)
        mask = self._mixture.mask(self._ranks, inner)
        if mask is not None:
            inner = inner * mask
        flat = y.view(-1, y.shape[-1])
        return flat.addmm_(inner.view(-1, inner.shape[-1]), up).view(y.shape)


@contextmanager
def single(module: nn.Module, name: str) -> Iterator[None]:
    """While entered, `module` answers under one adapter, in the base's dtype and with gradients.

    PEFT computes an adapter in the adapter's own dtype; in the base's it is as the sampler does
    it, and a third faster where the base is in bfloat16.
    """
    layers = [layer for layer in adapted_layers(module) if name in layer.lora_A]
    for layer in layers:
        for part in (layer.lora_A[name], layer.lora_B[name]):
            part.weight.requires_grad_(True)
    with replaced(layers, lambda layer: _Single(layer, name)):
        yield


@contextmanager
def bare(module: nn.Module) -> Iterator[None]:
    """While entered, `module` answers without adapters."""
    with replaced(adapted_layers(module), lambda layer: layer.base_layer):
        yield


class _Single:
    """The forward pass of one layer under one adapter."""

    def __init__(self, layer: Any, name: str) -> None:
        self._base = layer.base_layer
        self._down, self._up = layer.lora_A[name].weight, layer.lora_B[name].weight
        self._scaling = layer.scaling[name]

    def __call__(self, x: Tensor) -> Tensor:
        dtype = self._base.weight.dtype
        flat = x.reshape(-1, x.shape[-1])
        inner = functional.linear(flat, self._down.to(dtype))
        up = (self._up * self._scaling).to(dtype)
        y: Tensor = self._base(flat).addmm_(inner, up.T)
        return y.view(*x.shape[:-1], -1)


def _side_by_side(layer: Any, names: Sequence[str]) -> tuple[Tensor, Tensor]:
    """A of all adapters, [ranks, in], and B with their scaling, [ranks, out]."""
    dtype = layer.base_layer.weight.dtype
    down = torch.cat([layer.lora_A[name].weight for name in names])
    up = torch.cat([layer.lora_B[name].weight.T * layer.scaling[name] for name in names])
    return down.detach().to(dtype), up.detach().to(dtype).contiguous()


def adapted_layers(module: nn.Module) -> list[Any]:
    """The layers that PEFT has put LoRA around."""
    return [part for part in module.modules() if "lora_A" in part._modules]


def can_mix(module: nn.Module) -> bool:
    """Whether all adapters of `module` are plain LoRA on linear layers, as is usual."""
    return all(map(_is_plain, adapted_layers(module)))


def _is_plain(layer: Any) -> bool:
    extras = getattr(layer, "lora_variant", {})
    biases = any(part.bias is not None for part in layer.lora_B.values())
    return isinstance(layer.base_layer, nn.Linear) and not (extras or biases or layer.merged)
