"""The object `collab` of an answer: what each agent wrote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from collab.records import Decision, Episode, Turn
from collab.serving.asking import Asked
from collab.serving.team import ServedTeam


def details(
    team: ServedTeam, asked: Asked, episode: Episode, warnings: Sequence[str]
) -> dict[str, Any]:
    """Everything that an episode holds besides its answer, for who wants all of it.

    `warnings` are those that came up on the way, beside those of the request.
    """
    agents = [_agent(turn, decision) for turn in episode.turns for decision in turn.decisions]
    return {
        "team": team.recipe.team.name,
        "episode": asked.id,
        "seed": episode.seed,
        "seconds": round(episode.seconds, 3),
        "agents": agents,
        "warnings": [*asked.warnings, *warnings],
    }


def _agent(turn: Turn, decision: Decision) -> dict[str, Any]:
    last = [d for d in turn.decisions if d.agent == decision.agent][-1]
    action = decision.action
    return {
        "name": decision.agent,
        "turn": turn.index,
        "round": decision.round,
        "text": action.text,
        "artefact": turn.artefacts.get(decision.agent) if decision is last else None,
        "finish_reason": action.finish_reason,
        "usage": {
            "prompt_tokens": action.usage.prompt_tokens,
            "completion_tokens": action.usage.new_tokens,
        },
        "seconds": round(action.seconds, 3),
    }
