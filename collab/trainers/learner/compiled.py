"""Decoder layers compiled by torch for the passes of learning; attention is its own kernel already.

A layer's code is compiled once for all layers, policies and lengths. That needs adapters that are
modules: a forward pass that is put on a layer as an object would be compiled anew for each object.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface

from collab.models.local.layers import decoder_layers, replaced
from collab.models.local.multi_lora import computed_in
from collab.trainers.learner.prefix_tree import attention

BACKEND = "inductor"


class AdaptedLinear(nn.Module):
    """A linear layer under one adapter, computed in the base's type."""

    def __init__(self, layer: Any, name: str) -> None:
        super().__init__()
        self.base = layer.base_layer
        self.down, self.up = layer.lora_A[name].weight, layer.lora_B[name].weight
        self.scaling = layer.scaling[name]

    def forward(self, x: Tensor) -> Tensor:
        """From [..., in] to [..., out]."""
        dtype = computed_in(self.base, x)
        inner = functional.linear(x, self.down.to(dtype))
        y: Tensor = self.base(x) + functional.linear(inner, (self.up * self.scaling).to(dtype))
        return y


@contextmanager
def one_adapter_as_modules(module: nn.Module, name: str) -> Iterator[None]:
    """While entered, `module` answers under one adapter, by modules in place of PEFT's.

    For plain LoRA on linear layers, as `can_mix` says.
    """
    found: list[tuple[nn.Module, str, Any]] = [
        (parent, key, child)
        for parent in module.modules()
        for key, child in parent._modules.items()
        if name in getattr(child, "lora_A", ())
    ]
    for _, _, layer in found:
        for part in (layer.lora_A[name], layer.lora_B[name]):
            part.weight.requires_grad_(True)
    try:
        for parent, key, layer in found:
            parent._modules[key] = AdaptedLinear(layer, name)
        yield
    finally:
        for parent, key, layer in found:
            parent._modules[key] = layer


@contextmanager
def compiled_layers(model: nn.Module) -> Iterator[None]:
    """While entered, the decoder layers of `model` run as torch has compiled them."""
    with ExitStack() as stack:
        stack.callback(AttentionInterface.register, attention.NAME, attention.attend_by_branches)
        left_out = torch.compiler.disable(attention.attend_by_branches)  # type: ignore[no-untyped-call]
        AttentionInterface.register(attention.NAME, left_out)
        layers = list(decoder_layers(model))
        stack.enter_context(replaced(layers, _compiled))
        yield


def _compiled(layer: Any) -> Any:
    return torch.compile(layer.forward, backend=BACKEND, dynamic=True)
