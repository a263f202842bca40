"""Credit: from the groups of a step to one weight for each episode, turn and agent.

`BUILT_IN` lists the algorithms. Your own is a function or a class (see `base`): a project names
`file.py:function`, a package registers it in the entry point group `collab.algorithms`.
"""

from __future__ import annotations

from typing import Any

from collab.recipe.component import Component
from collab.trainers.credit.base import Algorithm, PerGroup, comparing, make_algorithm
from collab.trainers.credit.counterfactual.algorithms import Coma, Cross, Removal, Shapley
from collab.trainers.credit.critics import IAC, MAAC
from collab.trainers.credit.group import Group, Node, Rewards, Weights, compare
from collab.trainers.credit.madpo import MADPO
from collab.trainers.credit.magrpo import at_grpo, magrpo, mareinforce, maremax, marloo
from collab.trainers.credit.marlhf import MARLHF
from collab.trainers.credit.rae import Rae
from collab.trainers.credit.sft import Sft
from collab.trainers.credit.shaped import Shaped
from collab.trainers.credit.vdn import VDN

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
    "marlhf": MARLHF,
    "vdn": VDN,
    "rae": Rae,
    "sft": Sft,
    "at-grpo": at_grpo,
    "shaped": Shaped,
}


def algorithm_for(component: Component) -> Algorithm:
    """Make the algorithm that a recipe names; raises RecipeError as `make_algorithm` does."""
    return make_algorithm(component, BUILT_IN)
