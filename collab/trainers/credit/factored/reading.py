"""What each agent's part of a return is read from: its own prompt and response."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from collab.trainers.credit.critics.critic import Critics
from collab.trainers.credit.critics.values import Place
from collab.trainers.credit.group import Group, Node
from collab.trainers.credit.one_reward import one_reward

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """The joint actions of a step, and the responses that they are made of."""

    places: list[Place]
    targets: list[float]
    """The return of each joint action."""
    features: dict[str, Tensor]
    """By agent: of each of its responses, [responses, hidden]."""
    rows: dict[str, list[int]]
    """By agent: the position in `places` of each of its responses."""

    def by_place(self, agent: str, values: Sequence[float]) -> dict[Place, float]:
        """Values of an agent's responses, by their joint actions."""
        return {self.places[row]: v for row, v in zip(self.rows[agent], values, strict=True)}


async def read(groups: Sequence[Group], heads: Critics) -> Batch:
    """Read the responses of a step, those of an agent with the model of its head.

    Raises:
        TrainingError: agents earned different returns.
    """
    places = [(number, node) for number, group in enumerate(groups) for node in group.children]
    targets = [one_reward(groups[n], groups[n].returns, node) for n, node in places]
    batch = Batch(places, targets, {}, {})
    for agent in dict.fromkeys(agent for group in groups for agent in group.agents):
        found = {
            row: response
            for row, (number, node) in enumerate(places)
            if (response := own_response(groups[number], node, agent)) is not None
        }
        model = heads.of(agent, agent).model
        batch.features[agent] = await model.features(list(found.values()))
        batch.rows[agent] = list(found)
    return batch


def own_response(group: Group, node: Node, agent: str) -> tuple[int, ...] | None:
    """The tokens of an agent's last prompt of a turn and of its response to it.

    None where the agent did not act in that turn.
    """
    episode, turn = node
    found = None
    for decision in group.episodes[episode].turns[turn].decisions:
        if decision.agent == agent and decision.action.prompt_ids:
            found = decision.action.prompt_ids + decision.action.token_ids
    return found
