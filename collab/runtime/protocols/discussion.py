"""All answer at the same time, then once more on what the others answered."""

from __future__ import annotations

from collab.errors import RecipeError
from collab.runtime.turn import Turn


async def discussion(turn: Turn) -> None:
    """Two rounds of all agents; the answers of the second one count."""
    if len(turn.agents) < 2:
        raise RecipeError("protocol 'discussion' takes 2 agents or more, the team has 1")
    await turn.together()
    await turn.together(template="discuss", sees="all")
