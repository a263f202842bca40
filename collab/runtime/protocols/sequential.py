"""Agents act one after the other, each one on what the earlier ones answered."""

from __future__ import annotations

from collab.runtime.turn import Turn


async def sequential(turn: Turn) -> None:
    """Every agent acts once, in the team's order, and sees the answers before its own.

    Templates also see `previous`: what the others answered in the turn before.
    """
    for agent in turn.agents:
        await turn.act(agent, sees="all", previous=turn.previous_of_others(agent))
