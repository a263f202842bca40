"""vLLM on the GPU of the trainer: what it takes of it, and whether it sleeps while one learns."""

from __future__ import annotations

from collab.models.vllm.cache_size import GB
from collab.recipe import Recipe, TrainerSpec
from collab.recipe.model import VLLMModel

FIRST_GPU = ("auto", "cuda", "cuda:0")
"""Names of the device that vLLM's engine here runs on."""


def engines_beside(recipe: Recipe) -> list[VLLMModel]:
    """Those that are on the GPU of the trainer."""
    models = dict.fromkeys(recipe.model_of(name) for name in recipe.team.agents)
    here = [m for m in models if isinstance(m, VLLMModel) and not m.servers]
    return [model for model in here if model.trainer_device in FIRST_GPU]


def engine_bytes(recipe: Recipe, memory: int, weights: int) -> int:
    """What they take of a GPU's `memory`.

    `weights` are the bytes of a base, which come to what `kv_cache_gb` says.
    """
    found = 0.0
    models = engines_beside(recipe) if memory else []
    for model in models:
        cache = model.kv_cache_gb
        share = model.among(len(models)).memory_share
        found += share * memory if cache is None else cache * GB + weights
    return int(found)


def sleeps_as_asked(recipe: Recipe) -> bool:
    """Whether the recipe says that they sleep."""
    return any(model.sleep for model in engines_beside(recipe))


def may_sleep(recipe: Recipe, spec: TrainerSpec, ranks: int) -> bool:
    """Whether they can, and the recipe leaves open whether they do.

    Servers of ranks keep their memory, and so does what samples while a step is learned.
    """
    is_open = any(model.sleep is None for model in engines_beside(recipe))
    return is_open and ranks == 1 and not spec.max_staleness
