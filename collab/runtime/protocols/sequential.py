"""Agents act one after the other, each one with the earlier answers."""

from __future__ import annotations

from collab.runtime.turn import Turn


async def sequential(turn: Turn) -> None:
    """Every agent acts once, in the team's order, and sees the answers before its own.

    Templates also see `previous`: the others' answers in the previous turn.
    """
    for agent in turn.agents:
        await turn.act(agent, sees="all", previous=turn.previous_of_others(agent))
