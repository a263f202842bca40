"""Histories that a critic reads, and advantages and targets of its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from collab.records import Decision, Episode
from collab.stats import mean
from collab.trainers.credit.group import Group, Node


def own_history(group: Group, node: Node, agent: str) -> tuple[int, ...] | None:
    """The tokens that an agent's first response of a turn was drawn after.

    None where the agent did not act in that turn.
    """
    episode, turn = node
    for decision in group.episodes[episode].turns[turn].decisions:
        if decision.agent == agent and decision.action.prompt_ids:
            return decision.action.prompt_ids
    return None


def joint_history(group: Group, node: Node) -> str:
    """What all agents have seen and said before any of them acts in a turn, by agent, as text.

    What an agent observes of others in this very turn is left out: a value that depended on it
    would be no baseline for those others.
    """
    episode, turn = node
    played = group.episodes[episode]
    names = dict.fromkeys(d.agent for t in played.turns for d in t.decisions)
    return "\n\n".join(f"{name}:\n{_said_to_and_by(played, turn, name)}" for name in names)


def _said_to_and_by(episode: Episode, turn: int, agent: str) -> str:
    texts: list[str] = []
    for earlier in episode.turns[:turn]:
        for decision in _of(agent, earlier.decisions):
            texts += [message.content for message in decision.observation]
            texts.append(decision.action.text)
    for decision in _of(agent, episode.turns[turn].decisions):
        if decision.round == 0 and decision.step == 0 and not decision.saw:
            texts += [message.content for message in decision.observation]
    return "\n".join(texts)


def _of(agent: str, decisions: tuple[Decision, ...]) -> list[Decision]:
    return [decision for decision in decisions if decision.agent == agent]


Place = tuple[int, Node]
"""A group of the step, by its number, and a joint action of it."""


def advantages_of_groups(
    groups: Sequence[Group], agent: str, values: Mapping[Place, float], *, trace: float
) -> dict[Place, float]:
    """As `advantages`, for all groups of a step."""
    found: dict[Place, float] = {}
    for number, group in enumerate(groups):
        own = {node: value for (n, node), value in values.items() if n == number}
        if agent in group.agents:
            advantage = advantages(group, agent, own, trace=trace)
            found |= {(number, node): value for node, value in advantage.items()}
    return found


def advantages(
    group: Group, agent: str, values: Mapping[Node, float], *, trace: float
) -> dict[Node, float]:
    """GAE (arXiv 1506.02438) over the turns of each episode, of an agent's rewards.

    delta_t = r_t + gamma V_t+1 - V_t and A_t = delta_t + gamma lambda A_t+1, where `trace` is
    lambda: 0 is the one-step error of IAC and MAAC (arXiv 2601.21972), 1 the return minus V_t. In a
    tree V_t+1 and A_t+1 are means over the joint actions that follow. After the last turn stands
    what a solved state goes on earning, and otherwise 0. A turn without a value, in which the agent
    did not act, is passed through.
    """
    found: dict[Node, float] = {}
    worth = dict(values)
    for node in sorted(group.children, key=lambda node: -node[1]):
        following = group.children[node]
        later = group.returns[node][agent] - group.rewards[node][agent]
        if following:
            later = group.discount * mean([worth[child] for child in following])
        ahead = group.rewards[node][agent] + later
        again = group.discount * trace * mean([found[child] for child in following])
        found[node] = ahead - worth.setdefault(node, ahead) + again
    return {node: found[node] for node in values}
