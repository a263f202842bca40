"""The rules of counterfactual credit: CROSS, COMA, Shapley values and removal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import factorial

import numpy as np

from collab.runs import metric_names
from collab.stats import mean
from collab.trainers.credit.counterfactual.forms import Form
from collab.trainers.credit.counterfactual.rule import Counterfactual
from collab.trainers.credit.counterfactual.table import Shifts, Table, Vector, leave_one_out
from collab.trainers.credit.group import Group, Node, Weights
from collab.trainers.credit.joint_actions import joined

FEW = 3
"""The shifts by default, where a joint artefact is of more than two answers."""


class Cross(Counterfactual):
    """A_i^(g) = Q_i^g - mean over g' != g of Q_i^g', with Q_i^g the mean over teammates' samples h
    of R(y_i^g, y_-i^h).

    Ours. A response is worth what it earns whoever it meets: the teammates' luck, which MAGRPO
    pays every agent for, is gone, and the gradient is unbiased. It is the additive part of the
    reward, what an exact VDN (arXiv 1706.05296) would learn, taken from the judge. For the turn of
    a parallel team, or siblings in a tree; see `forms` for what becomes of other responses.

    Costs no generation, but the judging of joint actions: G^n - G a turn with `shifts: all`, with m
    shifts n G (m - 1), and for two agents half of that.

    Args:
        shifts: see `Shifts`; by default `all` for two agents, and 3 for more.
    """

    name = "cross"
    pays_as_played = False

    def __init__(self, *, shifts: Shifts | None = None) -> None:
        super().__init__(shifts or "all", shifts or FEW)

    def crossed(self, table: Table) -> Vector:
        return table.crossed()


class Coma(Counterfactual):
    """A_i^(g) = R(y^g) - mean over g' != g of R(y_i^g', y_-i^g).

    Foerster et al., arXiv 1705.08926: the expectation over the agent's own actions is taken by its
    other samples, and their value is not a critic's but the judge's. Unbiased wherever nobody's
    answer of the turn depends on the agent's, so also for the last of a sequential team and in
    later turns; others get leave-one-out. On a parallel turn `cross` has less variance.

    Costs no generation, but the judging of n G (G - 1) joint actions a turn at most, for two agents
    half of it.

    Args:
        shifts: the joint actions of m samples, as in `cross`; by default those of all.
    """

    name = "coma"

    def __init__(self, *, shifts: int | None = None) -> None:
        super().__init__(shifts or "samples", shifts or "samples")


class Shapley(Counterfactual):
    """A_i^(g) = phi_i(y^g) minus the mean of phi_i over the agent's other responses in its place.

    phi_i is the Shapley value (1953) of agent i: let the agents join one after the other, in every
    order; phi_i is the mean of what i adds to v(S) when it joins, S being those before it. v(S) is
    the expected reward given the responses of S, with each agent that is not in S averaged over its
    own samples. For two agents the rule is the mean of `coma` and `cross`; what agents earn only
    together is split evenly among them. It is unbiased where `cross` is, and takes `coma`'s form
    where crossing would be biased. It would be biased everywhere if absent agents were removed in
    place of averaged: it would follow in part what each agent earns alone.

    Costs no generation, but the judging of G^n - G joint actions a turn.
    """

    name = "shapley"
    pays_as_played = False

    def __init__(self) -> None:
        super().__init__("all", "all")

    def crossed(self, table: Table) -> Vector:
        size, n_columns = table.cells.shape
        n_mates = round(np.log(n_columns) / np.log(size))
        cells = table.cells.reshape((size,) * (n_mates + 1))
        weights = np.zeros(size)
        for present in product((False, True), repeat=n_mates):
            chance = factorial(sum(present)) * factorial(n_mates - sum(present))
            share = chance / factorial(n_mates + 1)
            weights += share * _added(cells, present, table)
        return weights


def _added(cells: Vector, present: tuple[bool, ...], table: Table) -> Vector:
    """The gain of each response over the agent's other responses: [G].

    It is added to the responses of its sample's `present` teammates; absent ones are averaged.
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
    """A_i^(g) = R(y^g) - R(y^g without i's answer), the difference reward.

    Wolpert and Tumer 2001. Unbiased wherever nobody's answer of the turn depends on the agent's;
    others get leave-one-out. A diagnosis first of all: `credit/AGENT/contribution` is the mean of
    it, whether the agent's answer helped at all. As a rule to train by it has no mean of the group
    taken off: on the games of docs/credit.md its variance is between 0.6 and 2.4 times that of
    `marloo`, and always more than that of `cross`, but where both are leave-one-out.

    Costs no generation, but the judging of n G joint actions a turn.
    """

    name = "removal"

    def __init__(self) -> None:
        super().__init__()
        self._added: dict[str, list[float]] = {}

    async def prepare(self, group: Group) -> None:
        """Have every answer left out once."""
        for nodes in group.baselines_over:
            for agent in group.agents:
                await self._without(group, nodes, agent)

    async def credit(self, groups: Sequence[Group]) -> list[Weights]:
        self._added = {}
        return await super().credit(groups)

    def measures(self) -> Mapping[str, float]:
        """Also `credit/AGENT/contribution`, in points of the reward."""
        contributions = {
            metric_names.named(metric_names.CREDIT_CONTRIBUTION, a): mean(added)
            for a, added in self._added.items()
        }
        return {**super().measures(), **contributions}

    async def _of_agent(
        self, group: Group, nodes: Sequence[Node], agent: str, agent_forms: Mapping[str, Form]
    ) -> tuple[Vector, float | None]:
        played = np.array([group.rewards[node][agent] for node in nodes])
        without = await self._without(group, nodes, agent)
        added = played - without
        self._added.setdefault(agent, []).extend(added[~np.isnan(added)])
        if agent_forms[agent] == "alone":
            return await super()._of_agent(group, nodes, agent, agent_forms)
        later = np.array([group.returns[n][agent] - group.rewards[n][agent] for n in nodes])
        now = np.where(np.isnan(added), leave_one_out(played), added)
        rewards = np.concatenate([played, without]) + np.tile(later, 2)
        return now + leave_one_out(later), float(np.nanstd(rewards))

    async def _without(self, group: Group, nodes: Sequence[Node], agent: str) -> Vector:
        """The reward of each joint action with the agent's answer empty; NaN if unknown."""
        turns = [group.episodes[episode].turns[turn] for episode, turn in nodes]
        rewards = []
        for node, turn in zip(nodes, turns, strict=True):
            if agent not in joined(turn):
                rewards.append(group.rewards[node][agent])
                continue
            [score] = await group.score([node], [{agent: None}])
            rewards.append(np.nan if score is None else score[agent])
        return np.array(rewards, dtype=float)
