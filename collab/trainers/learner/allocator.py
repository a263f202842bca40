"""How torch lays out a GPU's memory."""

from __future__ import annotations

import os

import torch

from collab.recipe import Recipe
from collab.recipe.model import VLLMModel

VARIABLES = "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"


def grow_segments(recipe: Recipe) -> None:
    """Let pieces of memory grow in place, unless the user says how it is laid out.

    Lengths differ from step to step, and what is free between pieces of fixed sizes cannot be
    used. torch looks at the variable when it first takes memory. vLLM's engine here would inherit
    it, and could not sleep.
    """
    models = map(recipe.model_of, recipe.team.agents)
    beside = any(isinstance(model, VLLMModel) and not model.servers for model in models)
    if torch.cuda.is_available() and not beside and not os.environ.keys() & set(VARIABLES):
        os.environ[VARIABLES[0]] = "expandable_segments:True"
