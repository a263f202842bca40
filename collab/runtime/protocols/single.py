"""One agent works alone."""

from __future__ import annotations

from collab.errors import RecipeError
from collab.runtime.turn import Turn


async def single(turn: Turn) -> None:
    """One agent acts once.

    Raises:
        RecipeError: the team has several agents.
    """
    if len(turn.agents) != 1:
        raise RecipeError(f"protocol 'single' needs 1 agent, the team has {len(turn.agents)}")
    await turn.act(turn.agents[0])
