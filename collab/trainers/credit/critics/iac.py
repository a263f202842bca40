"""IAC: every agent has a critic of its own, which reads that agent's history."""

from __future__ import annotations

from collections.abc import Sequence

from collab.trainers.credit.critics.history import own_history
from collab.trainers.credit.critics.rule import ActorCritic
from collab.trainers.credit.critics.values import Place, advantages_of_groups
from collab.trainers.credit.group import Group, Key, Weights


class IAC(ActorCritic):
    """A_i,t = GAE of V_i(h_i,t), h_i,t what agent i has seen and said; CoLLM-DC, arXiv 2601.21972.

    V_i is a linear head on the base model with its adapters off, at the last token of the agent's
    prompt. It is trained by squared error towards A + V, one step a batch. No other episode is
    needed for a baseline, so G may be 1. Right for every protocol: a history holds nothing that
    depends on the response. It costs a forward pass over the prompts, and no further response or
    score. The options are those of `ActorCritic`.
    """

    async def credit(self, groups: Sequence[Group]) -> list[Weights]:
        """As `Algorithm.credit`."""
        weights: list[dict[Key, float]] = [{} for _ in groups]
        for agent in dict.fromkeys(agent for group in groups for agent in group.agents):
            critic = self._critics.of(agent, agent)
            read = _histories(groups, agent)
            values = dict(zip(read, await critic.values(list(read.values())), strict=True))
            found = advantages_of_groups(groups, agent, values, trace=self._trace)
            for (number, node), advantage in found.items():
                weights[number][*node, agent] = advantage
            critic.learn([found[place] + values[place] for place in read])
        return list(weights)


def _histories(groups: Sequence[Group], agent: str) -> dict[Place, tuple[int, ...]]:
    found = {}
    for number, group in enumerate(groups):
        for node in group.children:
            history = own_history(group, node, agent)
            if history is not None:
                found[number, node] = history
    return found
