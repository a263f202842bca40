"""MAREINFORCE: the return itself."""

from __future__ import annotations

from collab.trainers.credit.group import Group, Weights, compare


def mareinforce(group: Group) -> Weights:
    """A_t^(g) = R_t^(g), the same for every agent: no baseline.

    REINFORCE (Williams 1992) on joint returns; the gradient has the largest variance of all.
    """
    return compare(group, lambda returns: returns)
