"""The plain harness: one response, which is the answer."""

from __future__ import annotations

from collab.runtime.harness.move import Move


async def respond(move: Move) -> None:
    """Ask the model once."""
    await move.generate()
