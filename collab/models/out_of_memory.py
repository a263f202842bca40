"""The memory of a device: how it is laid out, how much is left, and telling when there is none."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from collab.recipe.model import VLLMModel

if TYPE_CHECKING:
    import torch

    from collab.recipe import Recipe

VARIABLES = "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"


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


def grow_segments(recipe: Recipe) -> None:
    """Let pieces of memory grow in place, unless the user says how it is laid out.

    Lengths differ from step to step, and what is free between pieces of fixed sizes cannot be
    used. torch looks at the variable when it first takes memory. vLLM's engine here would inherit
    it, and could not sleep.
    """
    import torch

    models = map(recipe.model_of, recipe.team.agents)
    beside = any(isinstance(model, VLLMModel) and not model.servers for model in models)
    if torch.cuda.is_available() and not beside and not os.environ.keys() & set(VARIABLES):
        os.environ[VARIABLES[0]] = "expandable_segments:True"
