"""MAGRPO and its relatives: advantages relative to a group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import fsum

from collab.stats import deviation, mean
from collab.trainers.credit.base import comparing
from collab.trainers.credit.group import Group, Weights, compare
from collab.trainers.credit.normalize import NEGLIGIBLE_SPREAD


@comparing
def magrpo(group: Group) -> Weights:
    """MAGRPO: A_t^(g) = R_t^(g) - mean over g' of R_t^(g'), the same for every agent.

    Liu et al., arXiv 2508.04652, Eq. 1: no division by the standard deviation, R_t the return
    from turn t on. With one agent it is GRPO without its normalization (Dr. GRPO, 2503.20783).
    """

    def advantages(returns: Sequence[float]) -> list[float]:
        baseline = mean(returns)
        return [value - baseline for value in returns]

    return compare(group, advantages)


@comparing
def marloo(group: Group) -> Weights:
    """MARLOO: A_t^(g) = R_t^(g) - mean over g' != g of R_t^(g'), the same for every agent.

    REINFORCE leave-one-out (Ahmadian et al., arXiv 2402.14740) on joint returns. The baseline does
    not depend on the response, so the gradient is unbiased. In a turn that all episodes of the
    group play, the weight is MAGRPO's times G/(G-1). An episode without others to compare gets 0.
    """

    def advantages(returns: Sequence[float]) -> list[float]:
        others = len(returns) - 1
        if not others:
            return [0.0]
        total = fsum(returns)
        return [value - (total - value) / others for value in returns]

    return compare(group, advantages)


@comparing
def maremax(group: Group) -> Weights:
    """MAReMax: A_t^(g) = R_t^(g) - max over g' of R_t^(g'), the same for every agent.

    ReMax (Li et al., arXiv 2310.10505) uses the greedy response's return as its baseline. Here it
    is the group's largest return, so responses below it become less likely, and none becomes more
    likely. `maremax` is biased, because the largest return depends on every response in the group.
    """
    return compare(group, lambda returns: [value - max(returns) for value in returns])


def mareinforce(group: Group) -> Weights:
    """MAREINFORCE without a baseline: A_t^(g) = R_t^(g), the same for every agent.

    REINFORCE (Williams 1992) on joint returns. The gradient has the largest variance of all.
    """
    return compare(group, lambda returns: returns)


@comparing
def at_grpo(group: Group) -> Weights:
    """AT-GRPO: A_i,t^(g) = (r_i,t^(g) - mean over g' of r_i,t^(g')) / their standard deviation.

    Agent- and turn-wise grouped GRPO, arXiv 2510.11062, on the rewards r_i,t of the turn itself.
    AT-GRPO is meant for `turn_structure: greedy`, in which the compared responses share one state
    and only the best is continued. A turn gets no credit for later turns, so every turn needs a
    reward that measures the team's progress. One turn of one agent is GRPO (arXiv 2402.03300).
    """

    def advantages(rewards: Sequence[float]) -> list[float]:
        average, spread = mean(rewards), deviation(rewards)
        return [(r - average) / spread if spread > NEGLIGIBLE_SPREAD else 0.0 for r in rewards]

    return compare(replace(group, returns=group.rewards, absorbed={}), advantages)
