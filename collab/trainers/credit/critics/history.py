"""What a critic reads: an agent's own history, or that of all agents."""

from __future__ import annotations

from collab.records import Decision, Episode
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
