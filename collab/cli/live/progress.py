"""A report on a terminal, with rich's progress bars for the work in progress below it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from rich.console import RenderableType
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from collab.cli.live.view import TextView
from collab.cli.screen.episode import format_points
from collab.cli.screen.page import DIM, CleanRenderable, TerminalPage
from collab.cli.screen.results import held_out_title
from collab.evaluation.results import EvaluationFinished, TeamFinished, TeamStarted
from collab.records import Episode, Record
from collab.runs import metric_names as names
from collab.runtime.events import (
    AgentActed,
    AgentActing,
    AgentProgress,
    EpisodeFinished,
    RunFinished,
    RunStarted,
)
from collab.stats import mean
from collab.study.results import CellFinished, CellStarted, StudyResults
from collab.trainers.training.events import StepFinished, TrainingProgress
from collab.wording import counted, format_cost

MAX_STREAM_CHARACTERS = 2000
"""Number of characters kept of a response in progress."""


@dataclass
class EpisodeCounts:
    """Counts the episodes of a run, or of a team that is evaluated."""

    team: str = ""
    planned: int = 0
    finished: int = 0
    started: float | None = None
    """Start of the first response. Models were loaded before it."""
    cost: float | None = None
    """US dollars, if an engine knows its price."""
    in_progress: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)
    """New tokens and the end of the text of each response in progress, by episode and agent."""
    generated: int = 0
    returns: list[float] = field(default_factory=list)
    largest: float = 0.0
    solved: list[bool] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        """New tokens of all responses, including those in progress."""
        return self.generated + sum(tokens for tokens, _ in self.in_progress.values())

    def add(self, event: Record) -> None:
        """Update the counts with an event."""
        match event:
            case AgentActing():
                self.started = self.started or time.monotonic()
                self.in_progress[event.episode, event.agent] = 0, ""
            case AgentProgress():
                if (key := (event.episode, event.agent)) in self.in_progress:
                    text = (self.in_progress[key][1] + event.text)[-MAX_STREAM_CHARACTERS:]
                    self.in_progress[key] = event.new_tokens, text
            case AgentActed():
                self.in_progress.pop((event.episode, event.decision.agent), None)
                usage = event.decision.action.usage
                self.generated += usage.new_tokens
                if usage.cost is not None:
                    self.cost = (self.cost or 0.0) + usage.cost
            case EpisodeFinished():
                self._finish(event.episode)

    def _finish(self, episode: Episode) -> None:
        for key in [key for key in self.in_progress if key[0] == episode.id]:
            del self.in_progress[key]  # a failure leaves agents that never answer
        self.finished += 1
        if episode.score and episode.score.solved is not None:
            self.solved.append(episode.solved)
        if episode.joint_return is not None:
            self.returns.append(episode.joint_return)
            self.largest = max(self.largest, episode.largest_return or 0.0)

    def text(self) -> str:
        """Format episodes, mean return, speed and cost in one line."""
        parts = [f"{self.finished} of {counted(self.planned, 'episode')}"]
        if self.solved:
            parts.append(f"{sum(self.solved)} of {len(self.solved)} solved")
        if self.returns:
            parts.append(f"return {format_points(mean(self.returns), self.largest)}")
        seconds = time.monotonic() - self.started if self.started else 0.0
        if seconds >= 1 and self.tokens:
            parts.append(f"{self.tokens / seconds:,.0f} tokens/s")
        return ", ".join([*parts, *([] if self.cost is None else [format_cost(self.cost)])])


class Bars(Progress):
    """Progress bars by name, below the ends of streamed responses."""

    def __init__(self, page: TerminalPage) -> None:
        self.streams: Iterable[str] = ()
        self._rows: dict[str, tuple[TaskID, str]] = {}
        self._console = page.console
        super().__init__(
            TextColumn("{task.description}", markup=False),
            BarColumn(20),
            TextColumn("{task.fields[note]}", style=DIM, markup=False),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=page.console,
            refresh_per_second=4,
            speed_estimate_period=3600,
            transient=True,
        )

    def show(
        self, name: str, text: str, done: float = 0, total: float | None = None, note: str = ""
    ) -> None:
        """Set the progress of the bar `name`, made on first use. Another `text` makes a new bar."""
        row, before = self._rows.get(name, (None, ""))
        if row is None or text != before:
            self.remove(name)
            row = self.add_task(text, total=total, note=note)
            self._rows[name] = row, text
        self.update(row, completed=done, total=total, note=note)

    def remove(self, name: str) -> None:
        """Remove the bar `name`, if there is one."""
        if row := self._rows.pop(name, None):
            self.remove_task(row[0])

    def get_renderable(self) -> RenderableType:
        return CleanRenderable(super().get_renderable())

    def get_renderables(self) -> Iterable[RenderableType]:
        limit = max(3, self._console.height // 3)
        for text in self.streams:
            lines = Text(text, DIM).wrap(self._console, self._console.width)
            yield Text("\n").join(lines[-limit:])
        yield self.make_tasks_table(self.tasks)


class LiveView(TextView):
    """A report on a terminal, with the work in progress below it."""

    progress = True
    page: TerminalPage

    def __init__(self, page: TerminalPage) -> None:
        super().__init__(page)
        self.counts = EpisodeCounts()
        self.bars = Bars(page)
        self.bars.start()

    def show(self, event: Record) -> None:
        self._update_bars(event)
        if isinstance(event, RunFinished | EvaluationFinished | StudyResults):
            self.close()
        super().show(event)

    def show_loading(self, stage: str, done: int, total: int) -> None:
        note = f"{done / 1e6:.0f} of {total / 1e6:.0f} MB" if total else ""
        self.bars.show("model", f"model: {stage}", done, total or None, note)

    def close(self) -> None:
        self.bars.stop()

    def _update_bars(self, event: Record) -> None:
        if isinstance(event, AgentActing | TrainingProgress):
            self.bars.remove("model")
        match event:
            case RunStarted():
                self.counts = EpisodeCounts(planned=len(event.tasks) * event.samples)
            case TeamStarted():
                self.counts = EpisodeCounts(event.label, event.planned, event.recorded)
            case AgentActing() | AgentProgress() | AgentActed() | EpisodeFinished():
                self._show_episode_bar(event)
            case TeamFinished():
                self.bars.remove("episodes")
            case CellStarted():
                self.bars.show(event.cell, event.cell)
            case CellFinished():
                self.bars.remove(event.cell)
            case TrainingProgress() | StepFinished():
                self._show_training_bar(event)

    def _show_training_bar(self, event: TrainingProgress | StepFinished) -> None:
        if isinstance(event, TrainingProgress):
            is_step = event.phase != "evaluation"
            text = f"step {event.step}: {event.phase}" if is_step else held_out_title(event.step)
            note = f"{event.done} of {counted(event.total, 'episode')}" if event.total else ""
            self.bars.show("step", text, event.done, event.total or None, note)
            return
        done, total, noun = event.step, event.steps, "step"
        if event.tokens is not None and event.of_tokens is not None:
            done, total, noun = event.tokens, event.of_tokens, "token"
        note = f"{done:,} of {counted(total, noun)}"
        if (cost := event.metrics.get(names.COST)) is not None:
            self.counts.cost = (self.counts.cost or 0.0) + cost
            note += f", {format_cost(self.counts.cost)}"
        self.bars.show("training", "training", done, total, note)

    def _show_episode_bar(self, event: Record) -> None:
        counts = self.counts
        counts.add(event)
        texts = [text for _, text in counts.in_progress.values() if text]
        self.bars.streams = texts if counts.planned == 1 else ()
        label = counts.team or "episodes"
        self.bars.show("episodes", label, counts.finished, counts.planned, counts.text())
