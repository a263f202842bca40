"""Showing a training: a line for each step, or on a terminal a table of the last steps."""

from __future__ import annotations

import time
from collections import deque
from contextlib import suppress
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from collab.cli.live.live import LiveView
from collab.cli.live.pace import so_far, time_left
from collab.cli.live.sample import Sample
from collab.cli.live.views import Report
from collab.cli.screen.episode import out_of
from collab.cli.screen.page import BAD, DIM, GOOD, NAME, WARN, Column, Page, Piece
from collab.cli.screen.terminal import TerminalPage, fitted_table
from collab.records import Episode
from collab.runs import metric_names as names
from collab.runs.following import last_line
from collab.runs.layout import EPISODES
from collab.runtime.events import RunFinished, RunStarted
from collab.runtime.summary import CUT
from collab.trainers.training.events import (
    Evaluation,
    StepFinished,
    TrainingEvent,
    TrainingProgress,
    largest_return,
)
from collab.wording import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

ROWS = 12
"""Steps that the live table shows."""


class TrainingReport(Report):
    """One line for a step, one for a warning; what changed on held-out tasks at the end.

    Where the steps stand in a table of their own, `steps` is false.
    """

    def __init__(self, page: Page, *, steps: bool = True, folder: str = "") -> None:
        super().__init__(page)
        self._steps = steps
        self._folder = folder

    def see(self, event: TrainingEvent) -> None:
        match event:
            case RunStarted():
                self._folder = event.folder or ""
                self._open(event)
            case StepFinished():
                if self._steps:
                    self.page.line(*step_line(event))
                for warning in event.warnings:
                    self.page.line(("warning: ", f"bold {WARN}"), warning)
            case Evaluation():
                self.page.line((f"{held_out_after(event.step)}: {held_out(event)}", NAME))
            case RunFinished():
                self._finish(event)
            case _:
                pass

    def _open(self, event: RunStarted) -> None:
        models = ", ".join(sorted(set(event.models.values())))
        self.page.line(
            (event.team, NAME),
            f": {', '.join(event.agents)} on {models}; {counted(len(event.tasks), 'task')},"
            f" groups of {event.samples}, ",
            (f"seed {event.seed}", DIM),
        )

    def _finish(self, event: RunFinished) -> None:
        summary = event.summary
        steps = counted(summary["steps"], "step")
        self.page.line(f"{steps} in {summary['seconds']:.0f} s")
        if summary.get("unlearned"):
            told = f"nothing was learned in {summary['unlearned']} of {steps}"
            self.page.line(("warning: ", f"bold {WARN}"), told)
        if summary["gains"]:
            self.page.line()
            self.page.table(*gains_table(summary["gains"]))
        self.page.line("team: ", (f"collab run {self._folder}", NAME))


class LiveTraining(LiveView[TrainingEvent]):
    """A report of a training, below which the last steps and the work in progress are shown."""

    work = (TrainingProgress,)
    end = RunFinished
    stays = True

    def __init__(self, page: TerminalPage) -> None:
        self._rows: deque[StepFinished] = deque(maxlen=ROWS)
        self._progress: TrainingProgress | None = None
        self._since = time.monotonic()
        self._opening: RunStarted | None = None
        self._sample = Sample()
        self._cost: float | None = None
        super().__init__(page, TrainingReport(page, steps=False))

    def follow(self, event: TrainingEvent) -> None:
        match event:
            case RunStarted():
                self._opening = event
            case TrainingProgress():
                self._progress = event
            case StepFinished():
                self._rows.append(event)
                self._since = time.monotonic()
                self._look(event)
            case _:
                pass

    def _look(self, event: StepFinished) -> None:
        """Count the money, and take a sample of what the step has played."""
        if names.COST in event.metrics:
            self._cost = (self._cost or 0.0) + event.metrics[names.COST]
        if self._opening and self._opening.folder:
            line = last_line(Path(self._opening.folder) / EPISODES)
            with suppress(ValidationError):
                self._sample.see(Episode.model_validate_json(line or b""))

    def close(self) -> None:
        self._progress = None  # so that the table that stays has no work below it
        super().close()

    def lines(self) -> list[RenderableType]:
        from rich.text import Text

        table, _ = fitted_table(TABLE, [cells(row) for row in self._rows], self.console.width)
        lines: list[RenderableType] = [table] if self._rows else []
        if self._opening and len(self._opening.agents) > 1 and self._rows:
            lines.append(Text(f"entropy and kl in the order {'/'.join(self._opening.agents)}", DIM))
        if cut := self._cut_off():
            lines.append(Text(f"cut off at their limit: {cut}", WARN))
        if working := self._working():
            lines += [*self._sample.lines(self.console.width), Text(working, DIM)]
        return lines

    def _cut_off(self) -> str:
        """The agents of whose responses in the last step many are cut off."""
        found = self._rows[-1].metrics.items() if self._rows else ()
        shares = [(names.matched(names.TRUNCATED, key), share) for key, share in found]
        return ", ".join(f"{agent} {share:.0%}" for agent, share in shares if agent and share > CUT)

    def _working(self) -> str:
        if self._progress is None:
            return ""
        now = self._progress
        count = f" {now.done} of {counted(now.total, 'episode')}" if now.total else ""
        seconds = so_far(time.monotonic() - self._since)
        if now.phase == "evaluation":
            told = f"{held_out_after(now.step)}:{count}"
        elif now.phase == "filter":
            told = f"measuring tasks:{count}"
        else:
            told = f"step {now.step}: {now.phase}{count}"
        return ", ".join([told, seconds, *self._outlook()])

    def _outlook(self) -> list[str]:
        """The time that is left by the steps so far, the memory, and the money."""
        if not self._rows:
            return []
        last = self._rows[-1]
        told = [] if self._cost is None else [f"${self._cost:.4f}"]
        if names.MEMORY in last.metrics:
            told.insert(0, f"{last.metrics[names.MEMORY]:.1f} GB")
        taken = [row.metrics.get(names.SECONDS, 0.0) for row in self._rows]
        left = last.steps - last.step
        if last.of_tokens is not None and last.tokens:
            left = ceil(last.step * (last.of_tokens / last.tokens - 1))
        return [*time_left(sum(taken), len(taken), left), *told]


_LEFT_OUT_FIRST = ("dropped", "dead", "tok/s", "s", "entropy", "spread", "kl")
"""Where the terminal is too narrow for all."""
COLUMNS = ("step", "return", "spread", "solved", "dead", "dropped", "entropy", "kl", "tok/s", "s")
_RANKS = {name: -place for place, name in enumerate(_LEFT_OUT_FIRST)}
TABLE = [Column(name, right=True, rank=_RANKS.get(name, -len(_RANKS))) for name in COLUMNS]


def cells(event: StepFinished) -> list[str]:
    """The columns of the live table."""
    row = event.metrics
    earned = row.get(names.RETURN)
    return [
        how_far(event),
        "-" if earned is None else out_of(earned, row.get(names.RETURN_MAXIMUM)),
        _number(row.get(names.RETURN_SPREAD), ".3f"),
        _number(row.get(names.SOLVED), ".0%"),
        _number(row.get(names.DEAD_GROUPS), ".0%"),
        _number(row.get(names.DROPPED), ".0%"),
        "/".join(_number(value, ".2f") for value in _of_agents(row, names.ENTROPY)),
        "/".join(_number(value, ".3f") for value in _of_agents(row, names.KL)),
        _number(row.get(names.TOKENS_PER_SECOND), ".0f"),
        _number(row.get(names.SECONDS), ".1f"),
    ]


def step_line(event: StepFinished) -> list[Piece]:
    pairs = zip(COLUMNS[1:], cells(event)[1:], strict=True)
    told = [f"{name} {value}" for name, value in pairs if value not in ("", "-")]
    return [(f"step {how_far(event)}  ", NAME), "  ".join(told)]


def how_far(event: StepFinished) -> str:
    """The step, of how many; where tokens end the run, with their share."""
    if event.of_tokens is None or event.tokens is None:
        return f"{event.step}/{event.steps}"
    return f"{event.step} ({event.tokens / event.of_tokens:.0%})"


def _of_agents(row: dict[str, float], pattern: str) -> list[float]:
    return [value for key, value in row.items() if names.matched(pattern, key) is not None]


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def held_out_after(step: int) -> str:
    """When held-out tasks are played, by the steps of training before it."""
    return f"held out, after step {step}" if step else "held out, before training"


def held_out(event: Evaluation) -> str:
    """An evaluation in a few words."""
    told = []
    for name, results in (("sampled", event.sampled), ("greedy", event.greedy)):
        if results:
            mean = sum(result.joint_return for result in results.values()) / len(results)
            told.append(f"{name} return {out_of(mean, largest_return(results))}")
    failed = f", {counted(event.failed, 'episode')} failed" if event.failed else ""
    return ", ".join(told) + failed + f" ({event.seconds:.0f} s)"


def gains_table(gains: dict[str, dict[str, Any]]) -> tuple[list[Column], list[list[Piece]]]:
    """Before and after on held-out tasks."""
    names = ("held out", "tasks", "return before", "after", "gain ± s.e.", "solved before", "after")
    rows: list[list[Piece]] = []
    for name, gain in gains.items():
        error = gain["error"]
        told = f"{gain['gain']:+.2f}" + ("" if error is None else f" ± {error:.2f}")
        row: list[Piece] = [name, str(gain["tasks"])]
        row += [out_of(gain[end], gain["maximum"]) for end in ("before", "after")]
        row += [(told, GOOD if gain["gain"] > 0 else BAD)]
        row += [_number(gain["solved_before"], ".0%"), _number(gain["solved_after"], ".0%")]
        rows.append(row)
    return [Column(name, right=position > 0) for position, name in enumerate(names)], rows
