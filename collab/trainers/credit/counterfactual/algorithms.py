"""The algorithms of counterfactual credit: CROSS, COMA, Shapley values and removal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import factorial

import numpy as np

from collab.runs import metric_names
from collab.stats import mean
from collab.trainers.credit.counterfactual.base import Counterfactual, later_returns
from collab.trainers.credit.counterfactual.forms import CreditForm
from collab.trainers.credit.counterfactual.table import (
    SampleShifts,
    Shifts,
    Table,
    Vector,
    leave_one_out,
)
from collab.trainers.credit.group import Group, Node, Weights

DEFAULT_SHIFTS = 3
"""Default shifts for a joint artifact of more than two answers."""


class Cross(Counterfactual):
    """Credit by the mean over teammates' samples: A_i^(g) = Q_i^g - mean over g' != g of Q_i^g'.

    Q_i^g is the mean over teammates' samples h of R(y_i^g, y_-i^h). CROSS is collab's own.

    This removes the noise of the teammates' samples, which MAGRPO passes on to every agent. The
    gradient is unbiased if missing scores do not depend on the answers. The credit is the additive
    part of the reward, which an exact VDN (arXiv 1706.05296) would learn. It applies to a turn of a
    parallel team, or to siblings in a tree. `forms` describes all other credit.

    With `shifts: all`, CROSS scores G^n - G more joint actions per turn. With m shifts, it scores
    n G (m - 1), or half as many for two agents.

    Args:
        shifts: see `Shifts`; by default `all` for two agents, and 3 for more.
    """

    def __init__(self, *, shifts: Shifts | None = None) -> None:
        super().__init__(shifts or "all", shifts or DEFAULT_SHIFTS)

    def crossed(self, table: Table) -> Vector:
        return table.crossed()


class Coma(Counterfactual):
    """Credit by COMA's baseline: A_i^(g) = R(y^g) - mean over g' != g of R(y_i^g', y_-i^g).

    Foerster et al., arXiv 1705.08926. The expectation over the agent's own actions is taken over
    the agent's other samples, which the reward scores instead of a critic. It is unbiased if no
    answer of the turn depends on the agent's. This includes the last agent of a sequential team,
    and later turns. Other agents get leave-one-out.

    COMA scores up to n G (G - 1) more joint actions per turn, or half as many for two agents.

    Args:
        shifts: the joint actions of m samples, as in `cross`; by default those of all samples.
    """

    def __init__(self, *, shifts: SampleShifts | None = None) -> None:
        super().__init__(shifts or "samples", shifts or "samples")


class Shapley(Counterfactual):
    """Credit by Shapley values: A_i^(g) = phi_i(y^g) minus the mean of phi_i over the agent's other
    responses in its place.

    phi_i is the Shapley value (1953) of agent i. The agents join one after the other, in every
    order. When i joins, it adds an amount to v(S), with S the agents before it; phi_i is the mean
    of these amounts. v(S) is the expected reward given the responses of S, averaged over the
    samples of each agent outside S; leaving these agents out would favor what each earns alone. For
    two agents, `shapley` is the mean of `coma` and `cross`. It is unbiased where `cross` is, and
    takes `coma`'s form where crossing would be biased.

    Shapley values need the scores of G^n - G more joint actions per turn.
    """

    def __init__(self) -> None:
        super().__init__("all", "all")

    def crossed(self, table: Table) -> Vector:
        size, n_columns = table.cells.shape
        n_mates = round(np.log(n_columns) / np.log(size))
        cells = table.cells.reshape((size,) * (n_mates + 1))
        weights = np.zeros(size)
        for present in product((False, True), repeat=n_mates):
            orders = factorial(sum(present)) * factorial(n_mates - sum(present))
            share = orders / factorial(n_mates + 1)
            weights += share * _gain_over_others(cells, present, table)
        return weights


def _gain_over_others(cells: Vector, present: tuple[bool, ...], table: Table) -> Vector:
    """Return the gain of each response over the agent's other responses: [G].

    It is measured with the responses of the `present` teammates of its sample, and averaged over
    absent ones.
    """
    if not any(present):
        return table.crossed()
    absent = tuple(axis + 1 for axis, here in enumerate(present) if not here)
    known = ~np.isnan(cells)
    counts = np.maximum(known.sum(axis=absent), 1)
    means = np.where(known, cells, 0.0).sum(axis=absent) / counts
    means = np.where(known.any(axis=absent), means, np.nan) if absent else cells
    size = len(cells)
    place = (slice(None),) + (np.arange(size),) * sum(present)
    rewards = means[place]  # [own response, sample]
    return Table(rewards, tuple(range(size))).swapped()


class Removal(Counterfactual):
    """Credit by the difference reward: A_i^(g) = R(y^g) - R(y^g without i's answer).

    Wolpert and Tumer 2001. It is unbiased if no answer of the turn depends on the agent's. Other
    agents get leave-one-out. It is mainly a diagnosis: `credit/AGENT/contribution` is the mean
    difference and shows whether the agent's answer helped at all. For training, it lacks the
    group's mean as a baseline.

    Removal scores n G more joint actions per turn.
    """

    def __init__(self) -> None:
        super().__init__()
        self._differences: dict[str, list[float]] = {}

    async def prepare(self, group: Group) -> None:
        """Score every joint action of a group again without the answer of each agent."""
        for nodes in group.baselines_over:
            for agent in group.agents:
                await self._rewards_without(group, nodes, agent)

    async def credit(self, groups: Sequence[Group]) -> list[Weights]:
        self._differences = {}
        return await super().credit(groups)

    def measures(self) -> Mapping[str, float]:
        """Return the usual metrics and `credit/AGENT/contribution`, in points of the reward."""
        contributions = {
            metric_names.fill_pattern(metric_names.CREDIT_CONTRIBUTION, a): mean(differences)
            for a, differences in self._differences.items()
        }
        return {**super().measures(), **contributions}

    async def _credit_agent(
        self, group: Group, nodes: Sequence[Node], agent: str, agent_forms: Mapping[str, CreditForm]
    ) -> tuple[Vector, float | None]:
        played = np.array([group.rewards[node][agent] for node in nodes])
        without = await self._rewards_without(group, nodes, agent)
        differences = played - without
        self._differences.setdefault(agent, []).extend(differences[~np.isnan(differences)])
        if agent_forms[agent] == "alone":
            return await super()._credit_agent(group, nodes, agent, agent_forms)
        later = later_returns(group, nodes, agent)
        now = np.where(np.isnan(differences), leave_one_out(played), differences)
        rewards = np.concatenate([played, without]) + np.tile(later, 2)
        return now + leave_one_out(later), float(np.nanstd(rewards))

    def _max_scored(self, group_size: int, n_agents: int) -> int:
        return group_size * n_agents

    async def _rewards_without(self, group: Group, nodes: Sequence[Node], agent: str) -> Vector:
        """Return the reward of each joint action without the agent's answer, or NaN if unknown."""
        rewards = []
        for node in nodes:
            if agent not in group.turn(node).contributions:
                rewards.append(group.rewards[node][agent])
                continue
            [score] = await group.score([node], [{agent: None}])
            rewards.append(np.nan if score is None else score[agent])
        return np.array(rewards, dtype=float)
