"""Finds a model's layers, and temporarily replaces their forward passes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import nn

Forward = Callable[..., Any]


def decoder_layers(base: Any) -> Iterable[Any]:
    """Return the blocks of a causal language model, in order, or none for an unknown structure."""
    count = base.config.get_text_config().num_hidden_layers
    lists = (part for part in base.modules() if isinstance(part, nn.ModuleList))
    return next((blocks for blocks in lists if len(blocks) == count), ())


def has_gradient_checkpointing(base: Any) -> bool:
    """Return True if gradient checkpointing is on, so the backward pass recomputes activations."""
    return any(getattr(layer, "gradient_checkpointing", False) for layer in decoder_layers(base))


@contextmanager
def replace_forwards(layers: Sequence[Any], forward: Callable[[Any], Forward]) -> Iterator[None]:
    """Context manager in which each of `layers` runs `forward(layer)` instead of its own forward
    pass.
    """
    before = [vars(layer).get("forward") for layer in layers]
    try:
        for layer in layers:
            # Past torch's own __setattr__, which would take a module for a part of the layer.
            vars(layer)["forward"] = forward(layer)
        yield
    finally:
        for layer, held in zip(layers, before, strict=True):
            if held is None:
                vars(layer).pop("forward", None)
            else:
                vars(layer)["forward"] = held
