"""Views of a command's events: JSON lines, a report, or a report with a live part below it."""

from __future__ import annotations

import io
import os
import sys
from typing import TextIO

from collab.cli.screen.episode import show_episode, show_episode_line
from collab.cli.screen.page import BAD, BOLD, GOOD, WARN, WARNING, Page
from collab.cli.screen.results import (
    best_of_line,
    held_out_text,
    held_out_title,
    opening_line,
    show_evaluation,
    show_probe,
    show_study,
    show_summary,
    show_training,
    step_line,
)
from collab.cli.screen.streams import guard_stream, json_text
from collab.evaluation.results import EvaluationFinished, EvaluationStarted, TeamStarted
from collab.probe.results import BestOf, TeamProbe
from collab.records import Record
from collab.runtime.events import EpisodeFinished, RunFinished, RunStarted
from collab.study.results import CellFinished, StudyResults, StudyStarted
from collab.trainers.training.events import Evaluation, StepFinished, TrainingFinished
from collab.wording import counted

MAX_FULL_EPISODES = 4
"""Up to this many episodes are shown in full. If there are more, each gets one line."""


class View:
    """Shows the events of a run, a training run, an evaluation or a study."""

    progress = False
    """True if the view needs events that only report progress."""

    def __init__(self) -> None:
        self._stage = ""

    def show(self, event: Record) -> None:
        """Show an event of a run, a training run, an evaluation or a study."""
        raise NotImplementedError

    def show_loading(self, stage: str, done: int, total: int) -> None:  # noqa: ARG002
        """Report a model's download on stderr, once per stage. Another thread may call this."""
        if stage != self._stage:
            self._stage = stage
            size = f" {total / 1e6:.0f} MB" if total else ""
            print(f"model: {stage}{size}", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Finish the output. Later events are not shown."""


class JsonView(View):
    """Prints events as JSON lines on stdout. All other output goes to stderr from now on.

    Output of a library or a child process therefore cannot mix with the lines.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines = _claim_stdout()

    def show(self, event: Record) -> None:
        self._lines.write(json_text(event) + "\n")
        self._lines.flush()


class TextView(View):
    """Shows finished work, in lines that stay on the screen."""

    def __init__(self, page: Page, folder: str = "") -> None:
        super().__init__()
        self.page, self._folder = page, folder
        self._models: dict[str, str] = {}
        self._width = 0
        """Width of the longest id of an episode."""
        self._in_full = self._in_evaluation = False

    def show(self, event: Record) -> None:
        self._show_run(event)
        self._show_training(event)
        self._show_evaluation(event)
        self._show_study(event)

    def _show_run(self, event: Record) -> None:
        match event:
            case RunStarted():
                self._start_run(event)
            case EpisodeFinished() if not self._in_evaluation:
                if self._in_full:
                    show_episode(self.page, event.episode)
                else:
                    show_episode_line(self.page, event.episode, self._width)
            case TrainingFinished():
                show_training(self.page, event, self._folder)
            case RunFinished():
                self._finish_run(event)
            case BestOf():
                self.page.line(best_of_line(event))
            case TeamProbe():
                show_probe(self.page, event)

    def _show_training(self, event: Record) -> None:
        match event:
            case StepFinished():
                self.page.line(*step_line(event))
            case Evaluation():
                text = f"{held_out_title(event.step)}: {held_out_text(event)}"
                self.page.line((text, BOLD))
            case _:
                return
        for warning in event.warnings:
            self.page.line(WARNING, warning)

    def _show_evaluation(self, event: Record) -> None:
        match event:
            case EvaluationStarted():
                self._folder = event.folder or ""
                self._warn_if_unsafe(event.isolation)
            case TeamStarted():
                self._in_evaluation = True
                missing = counted(event.planned - event.recorded, "episode")
                recorded = f", {event.recorded} recorded" if event.recorded else ""
                self.page.line((event.label, BOLD), f": {missing} to run{recorded}")
            case EvaluationFinished():
                show_evaluation(self.page, event.results)
                if self._folder:
                    self.page.line("record: ", (self._folder, BOLD))

    def _show_study(self, event: Record) -> None:
        match event:
            case StudyStarted():
                self._folder = event.folder
                text = f": {counted(event.cells, 'run')}, {event.done} done, {event.jobs} at once"
                self.page.line((event.study, BOLD), text)
            case CellFinished():
                tone = GOOD if event.status == "done" else BAD
                why = f": {event.message}" if event.message else ""
                self.page.line((event.status, tone), f" {event.cell}, {event.seconds:.0f} s{why}")
            case StudyResults():
                show_study(self.page, event)
                self.page.line("study: ", (self._folder, BOLD))

    def _start_run(self, event: RunStarted) -> None:
        self._folder, self._models = event.folder or "", event.models
        self._in_full = len(event.tasks) * event.samples <= MAX_FULL_EPISODES
        self._width = max(map(len, event.tasks), default=0) + len(f"#{event.samples - 1}")
        self.page.line(*opening_line(event))
        if event.trainer:
            self.page.line(event.trainer)
        for warning in event.warnings:
            self.page.line(WARNING, warning)
        self._warn_if_unsafe(event.isolation)
        self.page.line()

    def _warn_if_unsafe(self, isolation: str | None) -> None:
        if isolation == "unsafe":
            self.page.line(("generated programs run without isolation (--sandbox unsafe)", WARN))

    def _finish_run(self, event: RunFinished) -> None:
        if not self._in_full:
            self.page.line()
        if event.summary["episodes"]:
            if event.status != "done":
                self.page.line((event.status, f"bold {WARN}"))
            show_summary(self.page, event.summary, self._models)
        if self._folder:
            self.page.line("record: ", (self._folder, BOLD))


def _claim_stdout() -> TextIO:
    stdout = sys.stdout
    stdout.flush()
    try:
        number = stdout.fileno()
    except io.UnsupportedOperation:
        return stdout  # in memory: no one else writes to it
    claimed = os.fdopen(os.dup(number), "w", encoding="utf-8")
    os.dup2(2, number)
    sys.stdout = sys.stderr
    return guard_stream(claimed)
