"""Telling when a device has no memory left."""

from __future__ import annotations


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether torch found no memory; on a CPU its error has no type of its own."""
    import torch

    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)
