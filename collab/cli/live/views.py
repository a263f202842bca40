"""What follows a command while it goes on: JSON lines, a report, or a report with a live part."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from typing import Protocol, TextIO, TypeVar

from collab.cli.screen.page import Page
from collab.cli.screen.streams import guarded, json_text
from collab.cli.screen.terminal import TerminalPage, open_page
from collab.records import Record

Event_contra = TypeVar("Event_contra", bound=Record, contravariant=True)
"""What happens in a run, an evaluation or a training."""


class View(Protocol[Event_contra]):
    """What a command's events are shown by."""

    progress: bool
    """Whether events are wanted that only tell how far the work has come."""

    def see(self, event: Event_contra) -> None: ...

    def loading(self, stage: str, done: int, total: int) -> None:
        """A model is being fetched or loaded; called from another thread."""

    def close(self) -> None: ...


def open_view(
    report: Callable[[Page], View[Event_contra]],
    live: Callable[[TerminalPage], View[Event_contra]],
    *,
    json: bool,
) -> View[Event_contra]:
    """The view that suits where stdout leads: `live` on a terminal, `report` elsewhere."""
    if json:
        return JsonView()
    page = open_page()
    return live(page) if isinstance(page, TerminalPage) else report(page)


class Report:
    """What is finished, in lines that stay; `see` is its kind's own."""

    progress = False

    def __init__(self, page: Page) -> None:
        self.page = page
        self._stages = Stages()

    def loading(self, stage: str, done: int, total: int) -> None:  # noqa: ARG002
        self._stages.see(stage, total)

    def close(self) -> None:
        """Nothing is held."""


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
    return stage + size
