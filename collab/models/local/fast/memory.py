"""Keeps memory low on a CPU, and returns it to the system."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

MAX_COMPILED_PRODUCTS = 128
"""oneDNN kernels in its cache. One forward and backward pass needs up to 90."""

MIN_PACKED_WEIGHTS = 1 << 16
"""Fewest weights of a layer to be packed, because smaller products finish too soon for packing to
pay."""

TRIM_BYTES = 1 << 23
"""Bytes of layers' states between two trims, each of which takes some milliseconds."""


def limit_compiled_products() -> None:
    """Limit oneDNN's cache of compiled products. Call this before the first product.

    oneDNN compiles a product for every number of rows and keeps the last 1024, and torch keeps a
    description of each. This takes 600 MB for sizes that hardly recur. Compiling one takes less
    than a millisecond.
    """
    for capacity in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(capacity, str(MAX_COMPILED_PRODUCTS))


def trim_memory() -> None:
    """Return memory that torch has freed on the CPU to the operating system.

    The C library keeps it otherwise, separately per thread. Memory that sampling has freed is then
    not available for learning, and usage grows from step to step as sizes change.
    """
    release = _malloc_trim()
    if release is not None:
        release(0)


@contextmanager
def trim_after_layers(layers: Iterable[Any]) -> Iterator[None]:
    """Context manager that, on a CPU, calls `trim_memory` after each of `layers` and at exit.

    The GNU library cannot place an aligned tensor into the gap of one of its size (its bug 14581).
    So memory freed by a layer stays in use next to everything kept for the backward pass.
    """
    passed = trims = 0

    def count(states: Any) -> None:
        nonlocal passed, trims
        passed += states.nbytes
        if passed >= TRIM_BYTES:
            passed = 0
            trims += 1
            trim_memory()

    def after(layer: Any, inputs: Any, output: Any) -> None:  # noqa: ARG001
        states = output[0] if isinstance(output, tuple) else output
        if states.device.type == "cpu":
            count(states)
            if states.requires_grad:
                states.register_hook(count)  # its gradient has as many bytes

    with ExitStack() as stack:
        for layer in layers:
            stack.callback(layer.register_forward_hook(after).remove)
        yield
    if trims:
        trim_memory()


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    """Return the GNU library's function, or None for other libraries."""
    import ctypes

    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return None
    return trim
