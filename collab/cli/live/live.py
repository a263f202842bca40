"""The live view: a report that stays, and below it what is under way, drawn anew."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Generic

from collab.cli.live.pace import memory
from collab.cli.live.views import Event_contra, View, stage_text
from collab.cli.screen.page import WARN
from collab.cli.screen.terminal import TerminalPage

if TYPE_CHECKING:
    from rich.console import Group, RenderableType

A_SECOND = 4
"""Drawings."""


class LiveView(ABC, Generic[Event_contra]):
    """A report on a terminal, with a part below it that its kind gives the `lines` of."""

    progress = True
    work: ClassVar[tuple[type, ...]]
    """Events of work, before which all models were loaded."""
    end: ClassVar[type]
    """The last event, which is told when nothing is drawn anew any more."""
    stays = False
    """Whether the part below is left standing at the end."""

    watching = False
    """Whether another process does the work."""

    def __init__(self, page: TerminalPage, report: View[Event_contra]) -> None:
        self.console = page.console
        self._report = report
        self._stage = ""
        self._live = page.live(
            self.render,
            refresh_per_second=A_SECOND,
            transient=not self.stays,
            vertical_overflow="crop",
        )
        self._live.start()

    @abstractmethod
    def follow(self, event: Event_contra) -> None:
        """Take note of what is under way."""

    def memory(self) -> str:
        """The memory of the process that does the work, where it is this one."""
        return "" if self.watching else memory()

    @abstractmethod
    def lines(self) -> list[RenderableType]:
        """What is under way."""

    def see(self, event: Event_contra) -> None:
        if isinstance(event, self.work):
            self._stage = ""
        self.follow(event)
        if isinstance(event, self.end):
            self.close()
        self._report.see(event)

    def loading(self, stage: str, done: int, total: int) -> None:
        self._stage = stage_text(stage, done, total)

    def close(self) -> None:
        self._stage = ""
        self._live.stop()

    def render(self) -> Group:
        """The part below the report, as it is now."""
        from rich.console import Group
        from rich.text import Text

        lines = self.lines()
        if self._stage:
            lines.append(Text(f"model: {self._stage}", WARN))
        return Group(*lines)
