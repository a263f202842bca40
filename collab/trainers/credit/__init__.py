"""Credit: from the groups of a step to one weight for each episode, turn and agent.

Each algorithm is a file here. One's own is a function or a class (see `base`); a third party
registers it in the entry point group `collab.algorithms`, a project names `file.py:function`.
"""

from __future__ import annotations

from typing import Any

from collab.recipe.component import Component
from collab.trainers.credit.base import Algorithm, PerGroup, comparing, make_algorithm
from collab.trainers.credit.counterfactual.coma import Coma
from collab.trainers.credit.counterfactual.cross import Cross
from collab.trainers.credit.counterfactual.removal import Removal
from collab.trainers.credit.counterfactual.shapley import Shapley
from collab.trainers.credit.critics.iac import IAC
from collab.trainers.credit.critics.maac import MAAC
from collab.trainers.credit.group import Group, Node, Rewards, Weights, compare
from collab.trainers.credit.magrpo import magrpo
from collab.trainers.credit.mareinforce import mareinforce
from collab.trainers.credit.maremax import maremax
from collab.trainers.credit.marloo import marloo
from collab.trainers.credit.preferences.madpo import MADPO

__all__ = [
    "Algorithm",
    "Group",
    "Node",
    "PerGroup",
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
    "cross": Cross,
    "coma": Coma,
    "shapley": Shapley,
    "removal": Removal,
    "iac": IAC,
    "maac": MAAC,
    "madpo": MADPO,
}


def algorithm_for(component: Component) -> Algorithm:
    """The algorithm that a recipe names; raises RecipeError as `make_algorithm` does."""
    return make_algorithm(component, BUILT_IN)
