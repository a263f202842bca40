"""The work in progress, counted from events and shown in a few lines."""

from __future__ import annotations

import resource
import sys
import time
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from collab.cli.screen.episode import out_of
from collab.cli.screen.page import DIM, NAME, WARN
from collab.cli.screen.results import held_out_after
from collab.evaluation.results import TeamFinished, TeamStarted
from collab.records import Decision, Episode, Record
from collab.runs import metric_names as names
from collab.runs.layout import EPISODES
from collab.runs.log import Tail
from collab.runtime.events import (
    AgentActed,
    AgentActing,
    AgentProgress,
    EpisodeFinished,
    RunFinished,
    RunStarted,
)
from collab.runtime.summary import CUT, FEW, truncated
from collab.stats import mean
from collab.study.results import CellFinished, CellStarted
from collab.trainers.training.events import StepFinished, TrainingProgress
from collab.wording import counted, duration

if TYPE_CHECKING:
    from rich.text import Text

KEPT = 2000
"""Number of characters kept of a response in progress."""
SAMPLE_SECONDS, SAMPLE_LINES = 10.0, 6
"""A sample response stays this long, and shows this many lines."""
LAST_BYTES = 4_000_000
"""Number of bytes of the recorded episodes in which to look for the first sample."""
STEPS = 12
"""Number of steps from which the remaining time of a training is estimated."""


@dataclass
class Episodes:
    """Counts the episodes of a run, or of a team that is evaluated."""

    team: str = ""
    planned: int = 0
    recorded: int = 0
    """Number of episodes that an earlier call has finished."""
    finished: int = 0
    since: float | None = None
    """Start of the first response. Models were loaded before it."""
    cost: float | None = None
    """US dollars, if an engine knows its price."""
    acting: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)
    """New tokens and the end of the text of each response in progress, by episode and agent."""
    generated: int = 0
    responses: Counter[str] = field(default_factory=Counter)
    truncated: Counter[str] = field(default_factory=Counter)
    returns: list[float] = field(default_factory=list)
    largest: float = 0.0
    solved: list[bool] = field(default_factory=list)

    @property
    def tokens(self) -> int:
        """New tokens of all responses, including those in progress."""
        return self.generated + sum(tokens for tokens, _ in list(self.acting.values()))

    def see(self, event: Record) -> None:
        """Count a response or an episode."""
        match event:
            case AgentActing():
                self.since = self.since or time.monotonic()
                self.acting[event.episode, event.agent] = 0, ""
            case AgentProgress():
                if (key := (event.episode, event.agent)) in self.acting:
                    text = (self.acting[key][1] + event.text)[-KEPT:]
                    self.acting[key] = event.new_tokens, text
            case AgentActed():
                self.acting.pop((event.episode, event.decision.agent), None)
                self._count(event.decision)
            case EpisodeFinished():
                self._finish(event.episode)

    def _count(self, decision: Decision) -> None:
        usage, agent = decision.action.usage, decision.agent
        self.generated += usage.new_tokens
        self.responses[agent] += 1
        self.truncated[agent] += decision.action.finish_reason == "length"
        self.pay(usage.cost)

    def pay(self, cost: float | None) -> None:
        """Add the cost of a response or a step, if it is known."""
        if cost is not None:
            self.cost = (self.cost or 0.0) + cost

    def _finish(self, episode: Episode) -> None:
        for key in [key for key in self.acting if key[0] == episode.id]:
            del self.acting[key]  # a failure leaves agents that never answer
        self.finished += 1
        self.since = self.since or _began(episode)
        if episode.score and episode.score.solved is not None:
            self.solved.append(episode.solved)
        if episode.failure is None and episode.joint_return is not None:
            self.returns.append(episode.joint_return)
            self.largest = max(self.largest, episode.largest_return or 0.0)

    def shares_truncated(self) -> dict[str, float]:
        """Return the share of truncated responses, by agent with many of them."""
        return {
            agent: self.truncated[agent] / count
            for agent, count in self.responses.items()
            if count >= FEW and self.truncated[agent] >= CUT * count
        }

    def text(self) -> str:
        """Describe episodes, returns, speed, time and cost."""
        seconds = time.monotonic() - self.since if self.since else 0.0
        parts = [f"{self.finished} of {counted(self.planned, 'episode')}"]
        if self.solved:
            parts.append(f"{sum(self.solved)} of {len(self.solved)} solved")
        if self.returns:
            parts.append(f"return {out_of(mean(self.returns), self.largest)}")
        if seconds >= 1:
            parts += [f"{self.tokens / seconds:,.0f} tokens/s"] if self.tokens else []
            parts.append(duration(seconds))
            done = self.finished - self.recorded
            parts += _time_left(seconds, done, self.planned - self.finished)
            parts += _cost(self.cost)
        return ", ".join(parts)


class Progress:
    """Counts episodes, steps and trainings. `lines` shows the progress."""

    def __init__(self) -> None:
        self.watching = False
        """Another process does the work, so this one's memory says nothing."""
        self.stage = ""
        """Model being downloaded or loaded, with its progress."""
        self.episodes = Episodes()
        self._cells: dict[str, float] = {}
        """Start time of each training of a study that is in progress."""
        self._episodes: Tail | None = None
        """The file to which a training writes its episodes."""
        self._step: TrainingProgress | None = None
        self._step_since = time.monotonic()
        self._steps: deque[StepFinished] = deque(maxlen=STEPS)
        self._sample: Episode | None = None
        self._sample_since = float("-inf")

    def see(self, event: Record) -> None:
        """Count an event. An event of another kind changes nothing."""
        if isinstance(event, AgentActing | TrainingProgress):
            self.stage = ""
        self.episodes.see(event)
        match event:
            case RunStarted():
                folder = event.folder and Path(event.folder)
                self._episodes = Tail(folder / EPISODES, last=LAST_BYTES) if folder else None
                self.episodes = Episodes(planned=len(event.tasks) * event.samples)
            case TeamStarted():
                recorded = event.recorded
                self.episodes = Episodes(event.label, event.planned, recorded, recorded)
            case EpisodeFinished():
                self._show(event.episode)
            case TrainingProgress():
                self._step = event
            case StepFinished():
                self._finish_step(event)
            case CellStarted():
                self._cells[event.cell] = time.monotonic()
            case CellFinished():
                self._cells.pop(event.cell, None)
            case TeamFinished() | RunFinished():
                self._step, self.episodes = None, Episodes()

    def _finish_step(self, event: StepFinished) -> None:
        self._steps.append(event)
        self._step_since = time.monotonic()
        self.episodes.pay(event.metrics.get(names.COST))
        for line in self._episodes.lines()[-1:] if self._episodes else ():
            with suppress(ValidationError):
                self._show(Episode.model_validate_json(line))

    def _show(self, episode: Episode) -> None:
        """Take the episode as the sample, unless the previous sample is too recent."""
        is_due = time.monotonic() - self._sample_since >= SAMPLE_SECONDS
        if is_due and episode.turns and episode.failure is None:
            self._sample, self._sample_since = episode, time.monotonic()

    def lines(self, width: int, height: int) -> list[Text]:
        """Return the lines about the work in progress, for a terminal of this size."""
        from rich.text import Text

        lines: list[Text] = []
        episodes = self.episodes
        if episodes.planned == 1:
            texts = [text for _, text in list(episodes.acting.values())]
            most = max(3, height // 3)
            lines += [Text(_ending(text, most, width), DIM) for text in texts if text]
        elif self._sample and (episodes.planned or self._step):
            lines += _sample_lines(self._sample, width)
        if episodes.since or episodes.finished:
            team = f"{episodes.team} " if episodes.team else ""
            memory = "" if self.watching else f", {_memory()}"
            lines.append(Text.assemble((team, NAME), (episodes.text() + memory, DIM)))
        lines += [Text(f"warning: {text}", WARN) for text in self._warnings()]
        if self._step:
            lines.append(Text(self._step_text(self._step), DIM))
        for name, since in list(self._cells.items()):
            lines.append(Text(f"training {name}, {duration(time.monotonic() - since)}", DIM))
        if self.stage:
            lines.append(Text(f"model: {self.stage}", WARN))
        return lines

    def _warnings(self) -> list[str]:
        """Name the agents with many truncated responses."""
        shares = self.episodes.shares_truncated()
        for key, share in self._steps[-1].metrics.items() if self._step and self._steps else ():
            if (agent := names.matched(names.TRUNCATED, key)) and share > CUT:
                shares[agent] = share
        return [truncated(agent, share) for agent, share in shares.items()]

    def _step_text(self, now: TrainingProgress) -> str:
        """Return the current part of the step, its episodes, the elapsed and remaining time, memory
        and cost.
        """
        count = f" {now.done} of {counted(now.total, 'episode')}" if now.total else ""
        text = f"step {now.step}: {now.phase}{count}"
        if now.phase == "evaluation":
            text = f"{held_out_after(now.step)}:{count}"
        parts = [text, duration(time.monotonic() - self._step_since)]
        if self._steps:
            last = self._steps[-1]
            left = last.steps - last.step
            if last.of_tokens is not None and last.tokens:
                left = ceil(last.step * (last.of_tokens / last.tokens - 1))
            seconds = [step.metrics.get(names.SECONDS, 0.0) for step in self._steps]
            parts += _time_left(sum(seconds), len(seconds), left)
            if names.MEMORY in last.metrics:
                parts.append(f"{last.metrics[names.MEMORY]:.1f} GB")
        return ", ".join([*parts, *_cost(self.episodes.cost)])


def _time_left(seconds: float, done: int, left: int) -> list[str]:
    """Return the remaining time at the current pace, or nothing if it is unknown."""
    return [f"about {duration(seconds * left / done)} left"] if done and left > 0 else []


def _cost(dollars: float | None) -> list[str]:
    return [] if dollars is None else [f"${dollars:.4f}"]


def _memory() -> str:
    """Return peak memory of the GPUs if they are in use, else of the process."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        held = sum(torch.cuda.max_memory_allocated(n) for n in range(torch.cuda.device_count()))
    else:
        unit = 1 if sys.platform == "darwin" else 1024
        held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return f"{held / 1e9:.1f} GB"


def _began(episode: Episode) -> float | None:
    """Start of an episode that another process played, by this process's clock."""
    with suppress(ValueError):
        ago = datetime.now().timestamp() - datetime.fromisoformat(episode.started).timestamp()
        return time.monotonic() - max(0.0, ago)
    return None


def _sample_lines(episode: Episode, width: int) -> list[Text]:
    """Return the responses of an episode's last turn with its return, cropped."""
    from rich.text import Text

    earned = ""
    if episode.joint_return is not None:
        earned = f", return {out_of(episode.joint_return, episode.largest_return)}"
    lines = [Text(f"sample {episode.id}{earned}", NAME)]
    decisions = episode.turns[-1].decisions
    most = max(1, SAMPLE_LINES // (len(decisions) or 1))
    for decision in decisions:
        response = decision.action.text.strip().splitlines()
        text = "\n    ".join(line[: width - 4] for line in response[:most])
        text += " ..." if len(response) > most else ""
        lines.append(Text.assemble((f"  {decision.agent}: ", NAME), (text, DIM)))
    return lines


def _ending(text: str, lines: int, width: int) -> str:
    """Return the last lines of a text that grows."""
    pieces = [
        line[n : n + width] for line in text.splitlines() for n in range(0, len(line) or 1, width)
    ]
    return "\n".join(pieces[-lines:])
