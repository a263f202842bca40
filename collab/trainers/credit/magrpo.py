"""MAGRPO: group-relative advantages of the joint return."""

from __future__ import annotations

from collections.abc import Sequence

from collab.stats import mean
from collab.trainers.credit.base import comparing
from collab.trainers.credit.group import Group, Weights, compare


@comparing
def magrpo(group: Group) -> Weights:
    """A_t^(g) = R_t^(g) - mean over g' of R_t^(g'), the same for every agent.

    Liu et al., arXiv 2508.04652, Eq. 1: no division by the standard deviation, R_t the return
    from turn t on. With one agent it is GRPO without its normalisation (Dr. GRPO, 2503.20783).
    """

    def advantages(returns: Sequence[float]) -> list[float]:
        baseline = mean(returns)
        return [value - baseline for value in returns]

    return compare(group, advantages)
