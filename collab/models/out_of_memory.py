"""Telling how much memory a device has left, and when it has none."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether torch found no memory; on a CPU its error has no type of its own."""
    import torch

    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def free_bytes(device: torch.device) -> int:
    """What is left of a GPU's memory, with what torch holds unused; 0 for a CPU."""
    if device.type != "cuda":
        return 0
    import torch

    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0]) + unused
