"""Actor-critic rules: IAC with one critic per agent, MAAC with one for the team."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from collab.recipe import Recipe, TrainerSpec
from collab.trainers.credit.base import TeamModels
from collab.trainers.credit.checks import check_one_reward, one_reward
from collab.trainers.credit.critics.critic import Critics
from collab.trainers.credit.critics.values import (
    Place,
    advantages_of_groups,
    joint_history,
    own_history,
)
from collab.trainers.credit.group import Group, Key, Weights
from collab.trainers.credit.normalise import check_normalise


class ActorCritic:
    """A rule whose weights are generalised advantage estimates of its critics' values.

    Args:
        trace: lambda of GAE. 0 takes the paper's one-step error; 1 is unbiased whatever the critic
            says.
        rate: the critics' learning rate.
        width: of a critic's hidden layer; 0 for none.
        steps: how often a critic learns from a batch.
        model: a local model that the critics read in place of the agents' bases.
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

    def check(self, recipe: Recipe, spec: TrainerSpec) -> None:  # noqa: ARG002
        """Raise RecipeError where weights would be divided by what they are not centred for."""
        check_normalise(spec)

    def measures(self) -> dict[str, float]:
        """`critic/NAME/loss`, the mean squared error before the step's learning, and `/explained`,
        the share of the returns' variance that the values told."""
        return self._critics.measures()

    def state(self) -> dict[str, Any]:
        """The critics, by name."""
        return self._critics.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""
        self._critics.restore(state)


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


TEAM = "team"
"""The name of the critic."""


class MAAC(ActorCritic):
    """A_t = GAE of V(h_t), h_t what all agents have seen and said; CoLLM-CC, arXiv 2601.21972.

    One head on the base model of the first agent, adapters off, reads one text: for each agent its
    name and its history, joined by blank lines. It learns once a batch. What agents see of each
    other within the turn is left out, so that V is a baseline for all of them and the rule is right
    for every protocol, where all agents earn the same: V is one number. It costs a forward pass
    over the joint histories, and no further response or score. The options are those of
    `ActorCritic`.
    """

    async def credit(self, groups: Sequence[Group]) -> list[Weights]:
        """As `Algorithm.credit`."""
        weights: list[dict[Key, float]] = [{} for _ in groups]
        if not groups:
            return []
        agents = list(dict.fromkeys(agent for group in groups for agent in group.agents))
        critic = self._critics.of(TEAM, agents[0])
        places = [(n, node) for n, group in enumerate(groups) for node in group.children]
        for number, node in places:
            one_reward(groups[number], groups[number].rewards, node)
        texts = [joint_history(groups[number], node) for number, node in places]
        read = await critic.values([critic.model.encode(text) for text in texts])
        values = dict(zip(places, read, strict=True))
        found = {
            agent: advantages_of_groups(groups, agent, values, trace=self._trace)
            for agent in agents
        }
        for agent in agents:
            for (number, node), advantage in found[agent].items():
                if _acted(groups[number], node, agent):
                    weights[number][*node, agent] = advantage
        critic.learn([found[agents[0]][place] + values[place] for place in places])
        return list(weights)

    def check(self, recipe: Recipe, spec: TrainerSpec) -> None:
        """Raise RecipeError where one value cannot be that of all agents."""
        super().check(recipe, spec)
        check_one_reward("maac", recipe, spec)


def _acted(group: Group, node: tuple[int, int], agent: str) -> bool:
    episode, turn = node
    return any(d.agent == agent for d in group.episodes[episode].turns[turn].decisions)
