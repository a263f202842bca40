"""Credit: from a group of episodes to one weight for each episode, turn and agent.

An algorithm is a function from a `Group` to `Weights`. A third party registers one in the entry
point group `collab.algorithms`; a project names `module:function` or `file.py:function`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from collab.errors import TrainingError
from collab.plugins import call, check_call, check_plain, find
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
    """The algorithm called `name`.

    Raises:
        RecipeError: it is not known, or cannot be called with a group.
    """
    algorithm: Algorithm = find("algorithm", name, {**BUILT_IN})
    if name in BUILT_IN:
        return algorithm
    what = f"algorithm '{name}'"
    check_call(what, algorithm, ("group",))
    check_plain(what, algorithm)
    return partial(_own, what, algorithm)


def _own(what: str, algorithm: Algorithm, group: Group) -> Weights:
    """The weights that a user's algorithm gives; raises TrainingError when it raises."""
    weights = call(what, TrainingError, algorithm, group)
    if not isinstance(weights, Mapping):
        raise TrainingError(
            f"{what} gave a {type(weights).__name__}; an algorithm gives a mapping from"
            " (episode, turn, agent) to a number"
        )
    return weights
