"""Gives freed memory back to the system, and tells when none is left."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache


def trim() -> None:
    """Return what torch has freed on a CPU.

    The C library keeps it otherwise, for each thread apart: what sampling has freed is not there
    for learning, and grows from step to step as sizes change.
    """
    release = _malloc_trim()
    if release is not None:
        release(0)


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether torch found no memory; on a CPU its error has no type of its own."""
    import torch

    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    """The GNU library's; others have none."""
    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return None
    return found
