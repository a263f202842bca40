"""A report below which the agents at work are shown, with their tokens and speed."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from collab.cli.live.views import JsonView, ReportView, View, stage_text
from collab.cli.screen.choose import open_page
from collab.cli.screen.episode import DIM, NAME, WARN
from collab.cli.screen.plain import PlainPage
from collab.cli.screen.terminal import TerminalPage
from collab.runtime.events import (
    AgentActed,
    AgentActing,
    AgentProgress,
    EpisodeFinished,
    Event,
    RunFinished,
    RunStarted,
)

if TYPE_CHECKING:
    from rich.console import RenderableType


def open_view(*, json: bool) -> View:
    """The view that suits where stdout leads."""
    if json:
        return JsonView()
    page = open_page()
    return ReportView(page) if isinstance(page, PlainPage) else LiveView(page)


@dataclass
class _Acting:
    """An agent at work."""

    turn: int
    since: float
    tokens: int = 0
    started: float = field(default=0.0)
    """When its first token was seen; waiting for the batch is not its speed."""


class LiveView:
    """Shows events on a terminal; what is finished stays, what is under way is redrawn."""

    progress = True

    def __init__(self, page: TerminalPage) -> None:
        self._report = ReportView(page)
        self._console = page.console
        self._acting: dict[tuple[str, str], _Acting] = {}
        self._finished = self._solvable = self._solved = self._planned = 0
        self._stage = ""
        self._live = page.live(
            self._render, refresh_per_second=8, transient=True, vertical_overflow="crop"
        )

    def see(self, event: Event) -> None:
        now = time.monotonic()
        match event:
            case RunStarted():
                self._planned = len(event.tasks) * event.samples
                self._report.see(event)
                self._live.start()
            case AgentActing():
                self._acting[event.episode, event.agent] = _Acting(event.turn, now)
            case AgentProgress():
                self._stage = ""
                if acting := self._acting.get((event.episode, event.agent)):
                    acting.tokens = event.new_tokens
                    acting.started = acting.started or now
            case AgentActed():
                self._acting.pop((event.episode, event.decision.agent), None)
            case EpisodeFinished():
                self._finished += 1
                score = event.episode.score
                self._solvable += bool(score and score.solved is not None)
                self._solved += event.episode.solved
                self._report.see(event)
            case RunFinished():
                self.close()
                self._report.see(event)

    def loading(self, stage: str, done: int, total: int) -> None:
        self._stage = stage_text(stage, done, total)

    def close(self) -> None:
        self._live.stop()

    def _render(self) -> RenderableType:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 2))
        acting = list(self._acting.items())
        room = max(3, self._console.height // 3)
        for (episode, agent), state in acting[:room]:
            table.add_row(*_acting_cells(episode, agent, state))
        lines: list[RenderableType] = [table] if acting else []
        if len(acting) > room:
            lines.append(Text(f"and {len(acting) - room} more", DIM))
        if self._stage:
            lines.append(Text(f"model: {self._stage}", WARN))
        if self._planned > 1:
            told = f"{self._finished} of {self._planned} episodes"
            told += f", {self._solved} solved" if self._solvable else ""
            lines.append(Text(told, DIM))
        return Group(*lines)


def _acting_cells(episode: str, agent: str, state: _Acting) -> list[RenderableType]:
    from rich.text import Text

    seconds = time.monotonic() - (state.started or state.since)
    if state.started and seconds > 0:
        speed = f"{state.tokens / seconds:.0f} tokens/s"
    else:
        speed = f"waiting {seconds:.0f} s" if seconds >= 1 else ""
    return [
        Text(episode),
        Text(agent, NAME),
        Text(f"turn {state.turn + 1}", DIM),
        Text(f"{state.tokens} tokens", justify="right"),
        Text(speed, DIM, justify="right"),
    ]
