"""MARLOO: every episode against the mean of the others."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

from collab.trainers.credit.base import comparing
from collab.trainers.credit.group import Group, Weights, compare


@comparing
def marloo(group: Group) -> Weights:
    """A_t^(g) = R_t^(g) - mean over g' != g of R_t^(g'), the same for every agent.

    REINFORCE leave-one-out (Ahmadian et al., arXiv 2402.14740) on joint returns. The baseline
    does not depend on the response, so the gradient is unbiased; it is MAGRPO's times G/(G-1).
    An episode that has nobody to be compared with gets 0.
    """

    def advantages(returns: Sequence[float]) -> list[float]:
        others = len(returns) - 1
        if not others:
            return [0.0]
        total = fsum(returns)
        return [value - (total - value) / others for value in returns]

    return compare(group, advantages)
