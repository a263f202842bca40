"""The number of episodes under way at the same time."""

from __future__ import annotations

from collab.recipe import Recipe
from collab.recipe.model import VLLMModel

LANES = 32
"""Default if neither the recipe nor the engine sets a number."""

VLLM_LANES = 256
"""For each engine or server of vLLM, which computes so many responses side by side at least."""


def lanes_of(recipe: Recipe) -> int:
    """Episodes at the same time: as the recipe says, else enough to fill its engines."""
    if recipe.concurrency is not None:
        return recipe.concurrency
    models = map(recipe.model_of, recipe.team.agents)
    places = [max(len(model.servers), 1) for model in models if isinstance(model, VLLMModel)]
    return max(LANES, VLLM_LANES * max(places, default=0))
