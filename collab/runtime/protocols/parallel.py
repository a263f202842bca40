"""All agents act at the same time and see nothing of each other (arXiv 2508.04652)."""

from __future__ import annotations

from collab.runtime.turn import Turn


async def parallel(turn: Turn) -> None:
    """Every agent acts once, at the same time."""
    await turn.together()
