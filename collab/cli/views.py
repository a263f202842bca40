"""Readers of a run's events: JSON lines, a report, and a report with a live part."""

from __future__ import annotations

import io
import os
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from collab.cli.episode import DIM, NAME, WARN, show_episode, show_line
from collab.cli.page import Column, Page, PlainPage, TerminalPage, open_page
from collab.runtime.events import (
    AgentActed,
    AgentActing,
    AgentProgress,
    EpisodeFinished,
    EpisodeStarted,
    Event,
    RunFinished,
    RunStarted,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

IN_FULL = 4
"""Episodes up to which each one is shown in full."""


class View(Protocol):
    progress: bool
    """Whether `agent.progress` events are wanted."""

    def see(self, event: Event) -> None: ...

    def loading(self, stage: str, done: int, total: int) -> None:
        """A model is being fetched or loaded; called from another thread."""

    def close(self) -> None: ...


def open_view(*, json: bool) -> View:
    if json:
        return JsonView()
    page = open_page()
    return LiveView(page) if isinstance(page, TerminalPage) else ReportView(page)


class JsonView:
    """Events as JSON lines on what was stdout; from now on stdout leads to stderr.

    So nothing that a library or a child process writes can fall between the lines.
    """

    progress = False

    def __init__(self) -> None:
        self._lines = _claim_stdout()
        self._stages = _Stages()

    def see(self, event: Event) -> None:
        self._lines.write(event.model_dump_json() + "\n")
        self._lines.flush()

    def loading(self, stage: str, done: int, total: int) -> None:
        self._stages.see(stage, done, total)

    def close(self) -> None:
        self._lines.flush()


def _claim_stdout() -> TextIO:
    stdout = sys.stdout
    stdout.flush()
    sys.stdout = sys.stderr
    try:
        number = stdout.fileno()
    except io.UnsupportedOperation:
        return stdout
    claimed = os.fdopen(os.dup(number), "w", encoding="utf-8")
    os.dup2(2, number)
    return claimed


class _Stages:
    """Says on stderr, once for each stage, that a model is being fetched."""

    def __init__(self) -> None:
        self._told = ""

    def see(self, stage: str, done: int, total: int) -> None:
        if stage != self._told:
            self._told = stage
            print(f"model: {stage_text(stage, 0, total)}", file=sys.stderr, flush=True)


def stage_text(stage: str, done: int, total: int) -> str:
    size = f" {done / 1e6:.0f} of {total / 1e6:.0f} MB" if total and done else ""
    size = size or (f" {total / 1e6:.0f} MB" if total else "")
    names = {"convert": "converting, once", "wait": "waiting for another process to fetch it"}
    return names.get(stage, f"{stage}ing") + size


class ReportView:
    """Reports what is finished: few episodes in full, many in one line each, then a summary."""

    progress = False

    def __init__(self, page: Page) -> None:
        self.page = page
        self._stages = _Stages()
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

    def loading(self, stage: str, done: int, total: int) -> None:
        self._stages.see(stage, done, total)

    def close(self) -> None:
        """Nothing is held."""

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
            self.page.line(("generated programs run without isolation (--judge unsafe)", WARN))
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
        if summary["agents"]:
            self.page.table(*_agents_table(summary["agents"], self._started))
        if self._started and self._started.folder:
            self.page.line("record: ", (self._started.folder, NAME))


def _counts(summary: dict[str, Any]) -> str:
    scored = summary["episodes"] - summary["failed"]
    text = f"{summary['episodes']} episode{'s' * (summary['episodes'] != 1)}"
    text += f": {summary['passed']} passed, {scored - summary['passed']} not passed"
    if summary["failed"]:
        types = ", ".join(f"{name} {count}" for name, count in summary["failures"].items())
        text += f", {summary['failed']} failed ({types})"
    if summary["mean_reward"] is not None:
        text += f"; mean reward {summary['mean_reward']:.2f} of {summary['maximum']:.2f}"
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


@dataclass
class _Acting:
    """An agent at work."""

    turn: int
    since: float
    tokens: int = 0
    started: float = field(default=0.0)
    """When its first token was seen; waiting for the batch is not its speed."""


class LiveView:
    """A report below which the agents at work are shown, with their tokens and speed."""

    progress = True

    def __init__(self, page: TerminalPage) -> None:
        from rich.live import Live

        self._report = ReportView(page)
        self._console = page.console
        self._acting: dict[tuple[str, str], _Acting] = {}
        self._finished = self._passed = self._planned = self._under_way = 0
        self._stage = ""
        self._live = Live(
            console=page.console,
            get_renderable=self._render,
            refresh_per_second=8,
            transient=True,
            vertical_overflow="crop",
        )

    def see(self, event: Event) -> None:
        now = time.monotonic()
        match event:
            case RunStarted():
                self._planned = len(event.tasks) * event.samples
                self._report.see(event)
                self._live.start()
            case EpisodeStarted():
                self._under_way += 1
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
                self._under_way -= 1
                self._finished += 1
                self._passed += event.episode.solved
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
            told = f"{self._finished} of {self._planned} episodes, {self._passed} passed"
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


def report_view() -> ReportView:
    """A plain report on stderr."""
    return ReportView(PlainPage(sys.stderr))
