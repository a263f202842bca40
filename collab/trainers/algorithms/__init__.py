"""Credit: from the groups of a step to one weight for each episode, turn and agent.

Each algorithm is a file here. One's own is a function or a class (see `base`); a third party
registers it in the entry point group `collab.algorithms`, a project names `file.py:function`.
"""

from __future__ import annotations

from typing import Any

from collab.recipe.component import Component
from collab.trainers.algorithms.base import Algorithm, PerGroup, comparing, make_algorithm
from collab.trainers.algorithms.group import Group, Place, Rewards, Weights, compare
from collab.trainers.algorithms.magrpo import magrpo
from collab.trainers.algorithms.mareinforce import mareinforce
from collab.trainers.algorithms.maremax import maremax
from collab.trainers.algorithms.marloo import marloo

__all__ = [
    "Algorithm",
    "Group",
    "PerGroup",
    "Place",
    "Rewards",
    "Weights",
    "algorithm_for",
    "compare",
    "comparing",
]

BUILT_IN: dict[str, Any] = {
    "magrpo": magrpo,
    "marloo": marloo,
    "maremax": maremax,
    "mareinforce": mareinforce,
}


def algorithm_for(component: Component) -> Algorithm:
    """The algorithm that a recipe names; raises RecipeError as `make_algorithm` does."""
    return make_algorithm(component, BUILT_IN)
