"""Following a study: a line for each run as it ends, and those under way."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from collab.cli.live.views import Report
from collab.cli.screen.page import BAD, DIM, GOOD, NAME, Page
from collab.cli.screen.study import show_results
from collab.cli.screen.terminal import TerminalPage
from collab.study.results import (
    CellFinished,
    CellStarted,
    StudyEvent,
    StudyResults,
    StudyStarted,
)
from collab.wording import counted

if TYPE_CHECKING:
    from rich.text import Text


class StudyReport(Report):
    """One line for each run as it ends, then the table."""

    def __init__(self, page: Page) -> None:
        super().__init__(page)
        self._left = 0
        self._folder = ""

    def see(self, event: StudyEvent) -> None:
        """Show an event."""
        match event:
            case StudyStarted():
                self._left, self._folder = event.cells - event.done, event.folder
                told = f": {counted(event.cells, 'run')}, {event.done} done, {event.jobs} at once"
                self.page.line((event.study, NAME), told)
            case CellFinished():
                tone = GOOD if event.status == "done" else BAD
                why = f": {event.message}" if event.message else ""
                self.page.line((event.status, tone), f" {event.cell}, {event.seconds:.0f} s{why}")
            case StudyResults():
                show_results(self.page, event)
                self.page.line("study: ", (self._folder, NAME))
            case _:
                pass


class LiveStudy(StudyReport):
    """A report below which the runs under way are shown."""

    progress = True

    def __init__(self, page: TerminalPage) -> None:
        super().__init__(page)
        self._under_way: dict[str, float] = {}
        self._live = page.live(self._render, refresh_per_second=2, transient=True)

    def see(self, event: StudyEvent) -> None:
        """Show an event."""
        match event:
            case StudyStarted():
                super().see(event)
                self._live.start()
                return
            case CellStarted():
                self._under_way[event.cell] = time.monotonic()
            case CellFinished():
                self._under_way.pop(event.cell, None)
            case StudyResults():
                self.close()
        super().see(event)

    def close(self) -> None:
        """Take the live part away."""
        self._live.stop()

    def _render(self) -> Text:
        from rich.text import Text

        now = time.monotonic()
        lines = [f"training {name}, {now - since:.0f} s" for name, since in self._under_way.items()]
        return Text("\n".join(lines), DIM)
