"""Now and then a response with what it earned, for people who watch."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from collab.cli.screen.episode import out_of
from collab.cli.screen.page import DIM, NAME
from collab.records import Episode

if TYPE_CHECKING:
    from rich.console import RenderableType

EVERY_SECONDS = 10.0
LINES = 6
"""Of a response that are shown."""


class Sample:
    """The episode that is shown: it stays for a while, so that it can be read."""

    def __init__(self) -> None:
        self._episode: Episode | None = None
        self._since = float("-inf")

    def see(self, episode: Episode) -> None:
        """Show this episode where the one before was there for long enough."""
        now = time.monotonic()
        if episode.turns and episode.failure is None and now - self._since >= EVERY_SECONDS:
            self._episode, self._since = episode, now

    def lines(self, width: int) -> list[RenderableType]:
        """The response of each agent in the last turn, cropped, as plain text."""
        from rich.text import Text

        if self._episode is None:
            return []
        episode = self._episode
        earned = ""
        if episode.joint_return is not None:
            earned = f", return {out_of(episode.joint_return, episode.largest_return)}"
        lines: list[RenderableType] = [Text(f"sample {episode.id}{earned}", NAME)]
        room = max(1, LINES // len(episode.turns[-1].decisions or (1,)))
        for decision in episode.turns[-1].decisions:
            shown = cropped(decision.action.text, room, width - 4)
            lines.append(Text.assemble((f"  {decision.agent}: ", NAME), (shown, DIM)))
        return lines


def cropped(text: str, lines: int, width: int) -> str:
    """The first lines of a text, each no longer than the terminal is wide."""
    given = text.strip().splitlines()
    shown = [line[:width] for line in given[:lines]]
    return "\n    ".join(shown) + (" ..." if len(given) > lines else "")


def ending(text: str, lines: int, width: int) -> str:
    """The last lines of a text that grows."""
    pieces = [
        line[n : n + width] for line in text.splitlines() for n in range(0, len(line) or 1, width)
    ]
    return "\n".join(pieces[-lines:])
