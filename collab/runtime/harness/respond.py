"""The plain harness: one response, which is the answer."""

from __future__ import annotations

from collab.runtime.harness.move import Move


async def respond(move: Move) -> None:
    """Generate one response, which is the answer."""
    await move.generate()
