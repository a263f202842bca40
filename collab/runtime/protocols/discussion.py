"""All agents answer at the same time, then once more after seeing the others' answers."""

from __future__ import annotations

from collab.errors import RecipeError
from collab.runtime.turn import Turn


async def discussion(turn: Turn) -> None:
    """All agents answer in two rounds, and the answers of the second round count.

    Templates also see `previous`: the others' answers in the previous turn.

    Raises:
        RecipeError: the team has only one agent.
    """
    if len(turn.agents) < 2:
        raise RecipeError("protocol 'discussion' needs at least 2 agents, the team has 1")
    fields = {agent: {"previous": turn.previous_of_others(agent)} for agent in turn.agents}
    await turn.together(fields=fields)
    await turn.together(template="discuss", sees="all", fields=fields)
