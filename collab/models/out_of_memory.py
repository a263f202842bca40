"""The memory of a device: its layout, the free part, and out-of-memory errors."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from collab.recipe import Recipe

ALLOCATOR_VARIABLES = "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"

_PHRASES = ("can't allocate memory", "out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
"""Words in errors that have no separate type: on a CPU, and in CUDA outside the allocator."""


def is_out_of_memory(error: BaseException) -> bool:
    """Return True if torch, CUDA or cuBLAS ran out of memory."""
    import torch

    is_typed = isinstance(error, torch.OutOfMemoryError)
    is_untyped = isinstance(error, RuntimeError) and any(text in str(error) for text in _PHRASES)
    return is_typed or is_untyped


def free_bytes(device: torch.device) -> int:
    """Return the free bytes of a GPU's memory, including memory that torch holds unused, or 0 for a
    CPU.
    """
    if device.type != "cuda":
        return 0
    import torch

    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0]) + unused


def grow_segments(recipe: Recipe) -> None:
    """Let memory segments grow in place, unless the user has configured the allocator.

    Lengths differ from step to step, and free space between fixed-size segments cannot be used.
    torch reads the variable when it first allocates memory. vLLM's local engine would inherit it,
    and could then not sleep.
    """
    import torch

    is_configured = bool(os.environ.keys() & set(ALLOCATOR_VARIABLES))
    if torch.cuda.is_available() and not (is_configured or recipe.vllm_engines):
        os.environ[ALLOCATOR_VARIABLES[0]] = "expandable_segments:True"
