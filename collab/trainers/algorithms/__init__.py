"""Credit: from a group of episodes to one weight for each episode, turn and agent.

An algorithm is a function from a `Group` to `Weights`. A third party registers one in the entry
point group `collab.algorithms`; a project names `module:function` or `file.py:function`.
"""

from __future__ import annotations

from collections.abc import Callable

from collab.plugins import find
from collab.trainers.algorithms.group import Group, Place, Rewards, Weights, compare
from collab.trainers.algorithms.magrpo import magrpo
from collab.trainers.algorithms.mareinforce import mareinforce
from collab.trainers.algorithms.maremax import maremax
from collab.trainers.algorithms.marloo import marloo

__all__ = ["Algorithm", "Group", "Place", "Rewards", "Weights", "algorithm_for", "compare"]

Algorithm = Callable[[Group], Weights]

BUILT_IN: dict[str, Algorithm] = {
    "magrpo": magrpo,
    "marloo": marloo,
    "maremax": maremax,
    "mareinforce": mareinforce,
}


def algorithm_for(name: str) -> Algorithm:
    """The algorithm called `name`; raises RecipeError for one that is not known."""
    algorithm: Algorithm = find("algorithm", name, {**BUILT_IN})
    return algorithm
