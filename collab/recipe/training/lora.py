"""The shape of what is trained."""

from __future__ import annotations

from pydantic import Field

from collab.recipe.base import Spec


class LoraSpec(Spec):
    """The shape of every agent's adapter (LoRA, arXiv 2106.09685)."""

    rank: int = Field(default=16, ge=1)
    """r, the width of an adapter."""
    alpha: float = Field(default=32.0, gt=0)
    """An adapter's output is multiplied by alpha / rank."""
    targets: tuple[str, ...] = ()
    """Names of the linear layers that are adapted, e.g. `q_proj`; none named takes them all."""
