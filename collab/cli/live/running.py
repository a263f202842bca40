"""Showing a run: episodes in full or in a line each, and on a terminal the agents at work."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from collab.cli.live.episodes import Acting, Episodes
from collab.cli.live.live import LiveView
from collab.cli.live.sample import Sample, ending
from collab.cli.live.views import Report
from collab.cli.screen.episode import out_of, show_episode, show_line
from collab.cli.screen.page import DIM, NAME, WARN, Column, Page
from collab.cli.screen.terminal import TerminalPage
from collab.runtime.events import (
    AgentActing,
    EpisodeFinished,
    Event,
    RunFinished,
    RunStarted,
)
from collab.wording import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

IN_FULL = 4
"""Episodes up to which each one is shown in full."""


class RunReport(Report):
    """Reports what is finished: few episodes in full, many in one line each, then a summary."""

    def __init__(self, page: Page) -> None:
        super().__init__(page)
        self._width = 0
        self._in_full = True
        self._started: RunStarted | None = None

    def see(self, event: Event) -> None:
        match event:
            case RunStarted():
                self._open(event)
            case EpisodeFinished():
                if self._in_full:
                    show_episode(self.page, event.episode)
                else:
                    show_line(self.page, event.episode, self._width)
            case RunFinished():
                self._summarise(event)

    def _open(self, event: RunStarted) -> None:
        self._started = event
        self._in_full = len(event.tasks) * event.samples <= IN_FULL
        self._width = max(map(len, event.tasks)) + len(f"#{event.samples - 1}")
        models = sorted(set(event.models.values()))
        turns = f", {event.turns} turns" if event.turns > 1 else ""
        samples = f", {event.samples} samples" if event.samples > 1 else ""
        problems = event.tasks[0] if len(event.tasks) == 1 else f"{len(event.tasks)} problems"
        self.page.line(
            (event.team, NAME), f" on {problems}{samples}{turns}, {', '.join(models)}",
            (f", seed {event.seed}", DIM),
        )  # fmt: skip
        if event.isolation == "unsafe":
            self.page.line(("generated programs run without isolation (--sandbox unsafe)", WARN))
        self.page.line()

    def _summarise(self, event: RunFinished) -> None:
        summary = event.summary
        if not self._in_full:
            self.page.line()
        if event.status != "done":
            self.page.line((event.status, f"bold {WARN}"))
        self.page.line(_counts(summary))
        self.page.line(
            f"{summary['new_tokens']:,} new tokens in {summary['seconds']:.1f} s,"
            f" {summary['tokens_per_second']:,.0f} tokens/s"
        )
        for warning in summary["warnings"]:
            self.page.line(("warning: ", f"bold {WARN}"), warning)
        if summary["agents"]:
            self.page.table(*_agents_table(summary["agents"], self._started))
        if self._started and self._started.folder:
            self.page.line("record: ", (self._started.folder, NAME))


class LiveRun(LiveView[Event]):
    """A report of a run, below which each agent at work has a line with its tokens and speed."""

    work = (AgentActing,)
    end = RunFinished

    def __init__(self, page: TerminalPage) -> None:
        self._episodes = Episodes()
        self._sample = Sample()
        super().__init__(page, RunReport(page))

    def follow(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self._episodes = Episodes(planned=len(event.tasks) * event.samples)
        if isinstance(event, EpisodeFinished) and self._episodes.planned > IN_FULL:
            self._sample.see(event.episode)
        self._episodes.see(event)

    def lines(self) -> list[RenderableType]:
        acting = list(self._episodes.acting.items())
        if self._episodes.planned == 1:
            return [part for (_, agent), state in acting for part in self._writing(agent, state)]
        lines = self._sample.lines(self.console.width)
        lines += acting_lines(acting, max(3, self.console.height // 4))
        return [*lines, *pace_lines(self._episodes, held=self.memory())]

    def _writing(self, agent: str, state: Acting) -> list[RenderableType]:
        """An agent of the only episode, with the end of its text where the engine tells it."""
        from rich.text import Text

        [line] = acting_lines([(("", agent), state)], 1)
        room = max(3, self.console.height // 3)
        text = ending(state.text, room, self.console.width)
        return [line, Text(text, DIM)] if text else [line]


def acting_lines(
    acting: Sequence[tuple[tuple[str, str], Acting]], room: int
) -> list[RenderableType]:
    """The agents at work, as many as there is room for."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for (episode, agent), state in acting[:room]:
        table.add_row(*_acting_cells(episode, agent, state))
    lines: list[RenderableType] = [table] if acting else []
    if len(acting) > room:
        lines.append(Text(f"and {len(acting) - room} more", DIM))
    return lines


def pace_lines(episodes: Episodes, team: str = "", *, held: str = "") -> list[RenderableType]:
    """How far the episodes came, how fast, and which agents have no room for their answers.

    `held` is the memory in words.
    """
    from rich.text import Text

    if not episodes.planned:
        return []
    told = [episodes.text(), episodes.speed(), held if episodes.since else ""]
    name = f"{team} " if team else ""
    lines: list[RenderableType] = [
        Text.assemble((name, NAME), (", ".join(filter(None, told)), DIM))
    ]
    return lines + [Text(f"warning: {text}", WARN) for text in episodes.cut_off()]


def _acting_cells(episode: str, agent: str, state: Acting) -> list[RenderableType]:
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


def _counts(summary: dict[str, Any]) -> str:
    text = counted(summary["episodes"], "episode")
    if summary["solvable"]:
        solved, known = summary["solved"], summary["solvable"]
        text += f": {solved} solved, {known - solved} not solved"
    if summary["failed"]:
        types = ", ".join(f"{name} {count}" for name, count in summary["failures"].items())
        text += f", {summary['failed']} failed ({types})"
    if summary["mean_return"] is not None:
        text += f"; mean return {out_of(summary['mean_return'], summary['largest_return'])}"
    if summary["flagged"]:
        text += f"; {summary['flagged']} flagged"
    return text


def _agents_table(
    agents: dict[str, dict[str, Any]], started: RunStarted | None
) -> tuple[list[Column], list[list[str]]]:
    priced = any(agent["cost"] is not None for agent in agents.values())
    columns = [Column("agent"), Column("model")]
    columns += [Column(name, right=True) for name in ("responses", "prompt tokens", "new tokens")]
    columns += [Column("cost", right=True)] * priced
    rows = []
    for name, agent in agents.items():
        row = [name, started.models.get(name, "") if started else ""]
        row += [f"{agent[key]:,}" for key in ("responses", "prompt_tokens", "new_tokens")]
        if priced:
            row.append("-" if agent["cost"] is None else f"${agent['cost']:.4f}")
        rows.append(row)
    return columns, rows
