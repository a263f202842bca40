"""MAReMax: every episode against the best one."""

from __future__ import annotations

from collab.trainers.credit.base import comparing
from collab.trainers.credit.group import Group, Weights, compare


@comparing
def maremax(group: Group) -> Weights:
    """A_t^(g) = R_t^(g) - max over g' of R_t^(g'), the same for every agent.

    The baseline of ReMax (Li et al., arXiv 2310.10505), there the greedy response's return, is
    the group's largest return: what falls short is made less likely, nothing more likely.
    It is biased, since the largest return depends on every response of the group.
    """
    return compare(group, lambda returns: [value - max(returns) for value in returns])
