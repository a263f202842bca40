"""Credit: turns the groups of a step into one weight per episode, turn and agent.

`BUILT_IN` lists the algorithms. Your own is a function or a class (see `base`): a project names
`file.py:function`, a package registers it in the entry point group `collab.algorithms`.
"""

from __future__ import annotations

from collab.trainers.credit.base import Algorithm, PerGroup, algorithm_for, comparing
from collab.trainers.credit.group import Group, Node, Rewards, Weights, compare
from collab.trainers.credit.library import BUILT_IN

__all__ = [
    "BUILT_IN",
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
