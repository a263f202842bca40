"""Other forward passes for a model's layers, for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any


@contextmanager
def replaced(layers: Sequence[Any], forward: Callable[[Any], Any]) -> Iterator[None]:
    """While entered, each of `layers` is called as `forward(layer)`."""
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
