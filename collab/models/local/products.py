"""Products of few rows in float32 on a CPU.

MKL takes weights times a few columns two to four times as fast as a few rows times weights, which
is how torch asks for a linear layer: the time of a response where bfloat16 is not native.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from collab.models.local.forwards import replaced

FEWEST, MOST = 2, 4
"""Rows for which it is faster; a single one torch takes as a vector."""


@contextmanager
def of_few_rows(module: nn.Module) -> Iterator[None]:
    """While entered, linear layers of `module` multiply few rows the faster way. No gradients."""
    layers = [layer for layer in module.modules() if type(layer) is nn.Linear and _gains(layer)]
    with replaced(layers, _Product):
        yield


def _gains(layer: nn.Linear) -> bool:
    weight = layer.weight
    on_mkl = weight.device.type == "cpu" and torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
    return on_mkl and weight.dtype == torch.float32


class _Product:
    """The forward pass of one layer."""

    def __init__(self, layer: nn.Linear) -> None:
        self._layer = layer

    def __call__(self, x: Tensor) -> Tensor:
        rows = x.numel() // x.shape[-1]
        layer = self._layer
        if not FEWEST <= rows <= MOST:
            return nn.functional.linear(x, layer.weight, layer.bias)
        y = torch.mm(layer.weight, x.reshape(rows, -1).t()).t().contiguous()
        if layer.bias is not None:
            y += layer.bias
        return y.view(*x.shape[:-1], -1)
