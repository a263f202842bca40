"""Readers of a run's events: JSON lines, and a report."""

from __future__ import annotations

import io
import os
import sys
from typing import Any, Protocol, TextIO

from collab.cli.screen.episode import DIM, NAME, WARN, out_of, show_episode, show_line
from collab.cli.screen.page import Column, Page
from collab.cli.screen.streams import guarded, json_text
from collab.records import Record
from collab.runtime.events import EpisodeFinished, Event, RunFinished, RunStarted
from collab.wording import counted

IN_FULL = 4
"""Episodes up to which each one is shown in full."""


class View(Protocol):
    progress: bool
    """Whether `agent.progress` events are wanted."""

    def see(self, event: Event) -> None: ...

    def loading(self, stage: str, done: int, total: int) -> None:
        """A model is being fetched or loaded; called from another thread."""

    def close(self) -> None: ...


class JsonView:
    """Events as JSON lines on what was stdout; from now on stdout leads to stderr.

    So nothing that a library or a child process writes can fall between the lines.
    """

    progress = False

    def __init__(self) -> None:
        self._lines = _claim_stdout()
        self._stages = Stages()

    def see(self, event: Record) -> None:
        self._lines.write(json_text(event) + "\n")
        self._lines.flush()

    def loading(self, stage: str, done: int, total: int) -> None:  # noqa: ARG002
        self._stages.see(stage, total)

    def close(self) -> None:
        self._lines.flush()


def _claim_stdout() -> TextIO:
    stdout = sys.stdout
    stdout.flush()
    try:
        number = stdout.fileno()
    except io.UnsupportedOperation:
        return stdout  # held in memory by whoever called us: no one else writes to it
    claimed = os.fdopen(os.dup(number), "w", encoding="utf-8")
    os.dup2(2, number)
    sys.stdout = sys.stderr
    return guarded(claimed)


class Stages:
    """Says on stderr, once for each stage, that a model is being fetched."""

    def __init__(self) -> None:
        self._told = ""

    def see(self, stage: str, total: int) -> None:
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
        self._stages = Stages()
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

    def loading(self, stage: str, done: int, total: int) -> None:  # noqa: ARG002
        self._stages.see(stage, total)

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
        if summary["agents"]:
            self.page.table(*_agents_table(summary["agents"], self._started))
        if self._started and self._started.folder:
            self.page.line("record: ", (self._started.folder, NAME))


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
