"""What an episode took, and which of its responses made the answer."""

from __future__ import annotations

from collab.records import Decision, Episode, Usage


def answering(episode: Episode) -> list[Decision]:
    """The last response of each agent whose artefact is in the joint one."""
    turn = episode.turns[-1]
    joined = turn.artefacts if turn.joined is None else turn.joined
    last = {decision.agent: decision for decision in turn.decisions}
    return [last[agent] for agent in joined if agent in last]


def spent(episode: Episode) -> Usage:
    """Tokens of all agents in all turns, and of feedback that asks a model."""
    decisions = [d.action.usage for turn in episode.turns for d in turn.decisions]
    told = [item.usage for turn in episode.turns for f in turn.feedback.values() for item in f]
    return sum([*decisions, *(usage for usage in told if usage)], Usage())


def unspoken(episode: Episode) -> int:
    """New tokens that did not end in the answer."""
    answers = sum(decision.action.usage.new_tokens for decision in answering(episode))
    return spent(episode).new_tokens - answers


def is_cut(episode: Episode) -> bool:
    """Whether a response that is in the answer was cut off."""
    return any(decision.action.finish_reason == "length" for decision in answering(episode))
