"""MAAC: one critic for the team, which reads the history of all agents."""

from __future__ import annotations

from collections.abc import Sequence

from collab.recipe import Recipe, TrainerSpec
from collab.trainers.credit.critics.history import joint_history
from collab.trainers.credit.critics.rule import ActorCritic
from collab.trainers.credit.critics.values import advantages_of_groups
from collab.trainers.credit.group import Group, Key, Weights
from collab.trainers.credit.one_reward import check_one_reward, one_reward

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
