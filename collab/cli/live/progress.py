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

from collab.cli.live.view import TextView, stage_text
from collab.cli.screen.episode import out_of
from collab.cli.screen.page import DIM, Cleaned, TerminalPage
from collab.cli.screen.results import held_out_after
from collab.evaluation.results import EvaluationFinished, TeamFinished, TeamStarted
from collab.records import Decision, Episode, Record
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

SHOWN_CHARACTERS = 2000
"""Number of characters kept of a response in progress."""


@dataclass
class EpisodeCounts:
    """Counts the episodes of a run, or of a team that is evaluated."""

    team: str = ""
    planned: int = 0
    finished: int = 0
    since: float | None = None
    """Start of the first response. Models were loaded before it."""
    cost: float | None = None
    """US dollars, if an engine knows its price."""
    acting: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)
    """New tokens and the end of the text of each response in progress, by episode and agent."""
    generated: int = 0
    returns: list[float] = field(default_factory=list)
    largest: float = 0.0
    solved: list[bool] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        """New tokens of all responses, including those in progress."""
        return self.generated + sum(tokens for tokens, _ in self.acting.values())

    def see(self, event: Record) -> None:
        """Update the counts with an event."""
        match event:
            case AgentActing():
                self.since = self.since or time.monotonic()
                self.acting[event.episode, event.agent] = 0, ""
            case AgentProgress():
                if (key := (event.episode, event.agent)) in self.acting:
                    text = (self.acting[key][1] + event.text)[-SHOWN_CHARACTERS:]
                    self.acting[key] = event.new_tokens, text
            case AgentActed():
                self.acting.pop((event.episode, event.decision.agent), None)
                self._count(event.decision)
            case EpisodeFinished():
                self._finish(event.episode)

    def _count(self, decision: Decision) -> None:
        usage = decision.action.usage
        self.generated += usage.new_tokens
        if usage.cost is not None:
            self.cost = (self.cost or 0.0) + usage.cost

    def _finish(self, episode: Episode) -> None:
        for key in [key for key in self.acting if key[0] == episode.id]:
            del self.acting[key]  # a failure leaves agents that never answer
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
            parts.append(f"return {out_of(mean(self.returns), self.largest)}")
        seconds = time.monotonic() - self.since if self.since else 0.0
        if seconds >= 1 and self.tokens:
            parts.append(f"{self.tokens / seconds:,.0f} tokens/s")
        return ", ".join([*parts, *([] if self.cost is None else [format_cost(self.cost)])])


class Bars(Progress):
    """Progress bars by name, below the ends of streamed responses."""

    def __init__(self, page: TerminalPage) -> None:
        self.streams: Iterable[str] = ()
        self._rows: dict[str, tuple[TaskID, str]] = {}
        self._shown_on = page.console
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
            self.drop(name)
            row = self.add_task(text, total=total, note=note)
            self._rows[name] = row, text
        self.update(row, completed=done, total=total, note=note)

    def drop(self, name: str) -> None:
        """Remove the bar `name`, if there is one."""
        if row := self._rows.pop(name, None):
            self.remove_task(row[0])

    def get_renderable(self) -> RenderableType:
        return Cleaned(super().get_renderable())

    def get_renderables(self) -> Iterable[RenderableType]:
        limit = max(3, self._shown_on.height // 3)
        for text in self.streams:
            lines = Text(text, DIM).wrap(self._shown_on, self._shown_on.width)
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

    def see(self, event: Record) -> None:
        self._count(event)
        if isinstance(event, RunFinished | EvaluationFinished | StudyResults):
            self.close()
        super().see(event)

    def loading(self, stage: str, done: int, total: int) -> None:
        text = stage_text(stage, done, total).removeprefix(stage)
        self.bars.show("model", f"model: {stage}", done, total or None, text.strip())

    def close(self) -> None:
        self.bars.stop()

    def _count(self, event: Record) -> None:
        if isinstance(event, AgentActing | TrainingProgress):
            self.bars.drop("model")
        match event:
            case RunStarted():
                self.counts = EpisodeCounts(planned=len(event.tasks) * event.samples)
            case TeamStarted():
                self.counts = EpisodeCounts(event.label, event.planned, event.recorded)
            case AgentActing() | AgentProgress() | AgentActed() | EpisodeFinished():
                self._count_episodes(event)
            case TeamFinished():
                self.bars.drop("episodes")
            case CellStarted():
                self.bars.show(event.cell, event.cell)
            case CellFinished():
                self.bars.drop(event.cell)
            case TrainingProgress() | StepFinished():
                self._train(event)

    def _train(self, event: TrainingProgress | StepFinished) -> None:
        if isinstance(event, TrainingProgress):
            is_step = event.phase != "evaluation"
            text = f"step {event.step}: {event.phase}" if is_step else held_out_after(event.step)
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

    def _count_episodes(self, event: Record) -> None:
        counts = self.counts
        counts.see(event)
        texts = [text for _, text in counts.acting.values() if text]
        self.bars.streams = texts if counts.planned == 1 else ()
        label = counts.team or "episodes"
        self.bars.show("episodes", label, counts.finished, counts.planned, counts.text())
