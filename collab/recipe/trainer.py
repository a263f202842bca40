"""How a team is trained. Defaults are those of MAGRPO, arXiv 2508.04652."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from collab.recipe.base import Spec


class TrainerSpec(Spec):
    name: str = ""
    description: str = ""
    algorithm: Literal["magrpo"] = "magrpo"
    group_size: int = Field(default=4, ge=1)
    """G, episodes of one problem that are compared with each other."""
