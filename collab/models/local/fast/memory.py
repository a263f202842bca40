"""Keeping to little memory on a CPU, and giving it back to the system."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

COMPILED_PRODUCTS = 128
"""oneDNN kernels kept in its cache; one forward and backward pass needs up to 90."""

LEAST_WEIGHTS = 1 << 16
"""Of a layer whose weights are packed; the product of a smaller one is over before packing pays."""

BYTES_A_TRIM = 1 << 23
"""Bytes of layers' states between one trim and the next; a trim takes some milliseconds."""


def keep_few_products() -> None:
    """Before the first product: oneDNN compiles one anew for every number of rows.

    It keeps the last 1024, and torch a description of each: 600 MB of sizes that hardly come
    again. To compile one takes less than a millisecond.
    """
    for capacity in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(capacity, str(COMPILED_PRODUCTS))


def trim() -> None:
    """Return what torch has freed on a CPU.

    The C library keeps it otherwise, for each thread apart: what sampling has freed is not there
    for learning, and grows from step to step as sizes change.
    """
    release = _malloc_trim()
    if release is not None:
        release(0)


@contextmanager
def trimmed(layers: Iterable[Any]) -> Iterator[None]:
    """While entered, `trim` on a CPU as passes forward and backward go through `layers`, and last.

    The GNU library cannot put an aligned tensor where one of its size was (its bug 14581), so that
    what a layer has freed stays beside all that is kept for the backward pass.
    """
    passed = _Passed()
    with ExitStack() as stack:
        for layer in layers:
            stack.callback(layer.register_forward_hook(passed.forward).remove)
        yield
    if passed.trims:
        trim()


class _Passed:
    """Counts the bytes of states that layers give, and of their gradients."""

    def __init__(self) -> None:
        self._bytes = 0
        self.trims = 0

    def forward(self, layer: Any, inputs: Any, output: Any) -> None:  # noqa: ARG002
        states = output[0] if isinstance(output, tuple) else output
        if states.device.type == "cpu":
            self._count(states)
            if states.requires_grad:
                states.register_hook(self._count)

    def _count(self, states: Any) -> None:
        self._bytes += states.nbytes
        if self._bytes >= BYTES_A_TRIM:
            self._bytes = 0
            self.trims += 1
            trim()


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    """The GNU library's; others have none."""
    import ctypes

    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return None
    return found
