"""Sampling settings, given once for a recipe and refined by team and agent."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from collab.recipe.base import Spec
from collab.records import Sampling


class SamplingSpec(Spec):
    """The settings that differ from those of the level above; unset ones are inherited."""

    temperature: float | None = Field(default=None, ge=0.0, le=5.0)
    """0 is greedy; training wants 1 or the value whose log-probs are to be learned."""
    top_p: float | None = Field(default=None, gt=0.0, le=1.0)
    """Keep the likeliest tokens that make up this probability; 1 keeps all."""
    top_k: int | None = Field(default=None, ge=0)
    """Keep the k likeliest tokens; 0 keeps all."""
    max_new_tokens: int | None = Field(default=None, ge=1)
    """Length limit of a response."""
    stop: tuple[Annotated[str, Field(min_length=1)], ...] | None = None
    """The response ends before the first of these strings."""


def merge_sampling(*levels: SamplingSpec) -> Sampling:
    """Combine levels from the most general to the most particular."""
    settings: dict[str, object] = {}
    for level in levels:
        settings.update(level.model_dump(exclude_none=True))
    return Sampling.model_validate(settings)
