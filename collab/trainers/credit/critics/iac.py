"""IAC: every agent has a critic of its own, which reads that agent's history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from collab.trainers.credit.critics.critic import Critics
from collab.trainers.credit.critics.history import own_history
from collab.trainers.credit.critics.values import Place, advantages_of_groups
from collab.trainers.credit.group import Group, Key, Weights
from collab.trainers.credit.models import TeamModels


class IAC:
    """A_i,t = GAE of V_i(h_i,t), h_i,t what agent i has seen and said; CoLLM-DC, arXiv 2601.21972.

    V_i is a linear head on the base model with its adapters off, at the last token of the agent's
    prompt, trained by squared error towards A + V, one step a batch. A group may be of one episode,
    so that G episodes may be of G tasks. Right for every protocol: a history holds nothing that
    depends on the response. It costs a forward pass over the prompts; no response, no score.

    Options: `trace` is lambda of GAE (0: the paper's one-step error; 1: unbiased whatever the
    critic says), `rate` the critic's learning rate, `width` that of a hidden layer (0: none),
    `steps` how often it learns from a batch, `model` a local model that is read instead.
    """

    def __init__(
        self,
        *,
        trace: float = 0.95,
        rate: float = 1e-3,
        width: int = 0,
        steps: int = 1,
        model: str | None = None,
    ) -> None:
        self._trace = trace
        self._critics = Critics(rate=rate, width=width, steps=steps, model=model)

    async def open(self, models: TeamModels) -> None:
        """As `UsesModels.open`."""
        self._critics.open(models)

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

    def measures(self) -> dict[str, float]:
        """As `Measures.measures`."""
        return self._critics.measures()

    def state(self) -> dict[str, Any]:
        """The critics."""
        return self._critics.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""
        self._critics.restore(state)


def _histories(groups: Sequence[Group], agent: str) -> dict[Place, tuple[int, ...]]:
    found = {}
    for number, group in enumerate(groups):
        for node in group.children:
            history = own_history(group, node, agent)
            if history is not None:
                found[number, node] = history
    return found
