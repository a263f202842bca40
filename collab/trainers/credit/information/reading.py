"""Histories and joint actions as short vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from collab.stats import mean
from collab.trainers.credit.critics.history import joint_history
from collab.trainers.credit.critics.values import Place
from collab.trainers.credit.group import Group, Node
from collab.trainers.credit.models import FrozenModel, TeamModels

if TYPE_CHECKING:
    from torch import Tensor

LENGTH = 16
"""Of the vector of a history, and of each agent's response."""


async def read(
    groups: Sequence[Group], places: Sequence[Place], models: TeamModels, other: str | None
) -> tuple[Tensor, Tensor]:
    """The joint history before each joint action, and what the trained agents said in it.

    Of shape [places, LENGTH] and [places, agents x LENGTH]. A response is read without its prompt,
    which would tell the history; of an agent that did not act it is 0.
    """
    import torch

    agents = groups[0].agents
    by_agent = {agent: models.other(other) if other else models.base(agent) for agent in agents}
    first = by_agent[agents[0]]
    texts = [first.encode(joint_history(groups[number], node)) for number, node in places]
    said = []
    for agent, model in by_agent.items():
        responses = [_response(groups[number], node, agent) for number, node in places]
        said.append(await _vectors(model, responses))
    return await _vectors(first, texts), torch.cat(said, dim=1)


async def _vectors(model: FrozenModel, sequences: Sequence[Sequence[int]]) -> Tensor:
    """Hidden states in a fixed random projection: [sequences, LENGTH]."""
    import torch
    from torch.nn.functional import layer_norm

    size = model.hidden_size
    directions = torch.randn(size, LENGTH, generator=torch.Generator().manual_seed(0))
    found = torch.zeros(len(sequences), LENGTH)
    there = [row for row, sequence in enumerate(sequences) if sequence]
    if there:
        states = await model.features([sequences[row] for row in there])
        found[there] = layer_norm(states.float().cpu(), (size,)) @ directions / size**0.5
    return found


def whole_returns(group: Group) -> dict[Node, float]:
    """By joint action: what its episode earns an agent in all its turns, of several their mean."""
    by_agent = [_whole_returns(group, agent) for agent in group.agents]
    return {node: mean([found[node] for found in by_agent]) for node in by_agent[0]}


def _whole_returns(group: Group, agent: str) -> dict[Node, float]:
    before: dict[Node, float] = {}
    for node in sorted(group.children, key=lambda node: node[1]):
        earned = group.discount ** node[1] * group.rewards[node][agent]
        before.setdefault(node, 0.0)
        before |= dict.fromkeys(group.children[node], before[node] + earned)
    return {
        node: start + group.discount ** node[1] * group.returns[node][agent]
        for node, start in before.items()
    }


def _response(group: Group, node: Node, agent: str) -> tuple[int, ...]:
    """The tokens of an agent's last response of a turn; none where it did not act."""
    episode, turn = node
    decisions = group.episodes[episode].turns[turn].decisions
    said = [d.action.token_ids for d in decisions if d.agent == agent]
    return said[-1] if said else ()
