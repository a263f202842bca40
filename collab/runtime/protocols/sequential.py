"""Agents act one after the other, each one on what the earlier ones answered."""

from __future__ import annotations

from collab.runtime.turn import Turn


async def sequential(turn: Turn) -> None:
    """Every agent acts once, in the team's order, and sees the answers before its own."""
    for agent in turn.agents:
        await turn.act(agent, sees="all")
