"""Removal: each response against its own absence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from collab.runs import metric_names
from collab.stats import mean
from collab.trainers.credit.counterfactual.forms import Form
from collab.trainers.credit.counterfactual.rule import Counterfactual
from collab.trainers.credit.counterfactual.table import Vector, leave_one_out
from collab.trainers.credit.group import Group, Node, Weights
from collab.trainers.credit.joint_actions import joined


class Removal(Counterfactual):
    """A_i^(g) = R(y^g) - R(y^g without i's answer), the difference reward.

    Wolpert and Tumer 2001. Unbiased wherever nobody's answer of the turn depends on the agent's;
    others get leave-one-out. A diagnosis first of all: `credit/AGENT/contribution` is the mean of
    it, whether the agent's answer helped at all. As a rule to train by it has no mean of the group
    taken off: on the games of docs/algorithms.md its variance is between 0.6 and 2.4 times that of
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
        """As `Algorithm.credit`."""
        self._added = {}
        return await super().credit(groups)

    def measures(self) -> Mapping[str, float]:
        """Also `credit/AGENT/contribution`, in points of the reward."""
        told = {
            metric_names.named(metric_names.CREDIT_CONTRIBUTION, a): mean(found)
            for a, found in self._added.items()
        }
        return {**super().measures(), **told}

    async def _of_agent(
        self, group: Group, nodes: Sequence[Node], agent: str, found: Mapping[str, Form]
    ) -> tuple[Vector, float | None]:
        played = np.array([group.rewards[node][agent] for node in nodes])
        without = await self._without(group, nodes, agent)
        added = played - without
        self._added.setdefault(agent, []).extend(added[~np.isnan(added)])
        if found[agent] == "alone":
            return await super()._of_agent(group, nodes, agent, found)
        later = np.array([group.returns[n][agent] - group.rewards[n][agent] for n in nodes])
        now = np.where(np.isnan(added), leave_one_out(played), added)
        rewards = np.concatenate([played, without]) + np.tile(later, 2)
        return now + leave_one_out(later), float(np.nanstd(rewards))

    async def _without(self, group: Group, nodes: Sequence[Node], agent: str) -> Vector:
        """By joint action: what it earns when the agent's answer is empty; NaN where unknown."""
        turns = [group.episodes[episode].turns[turn] for episode, turn in nodes]
        found = []
        for node, turn in zip(nodes, turns, strict=True):
            if agent not in joined(turn):
                found.append(group.rewards[node][agent])
                continue
            [score] = await group.score([node], [{agent: None}])
            found.append(np.nan if score is None else score[agent])
        return np.array(found, dtype=float)
