"""The typed stream of training events, between `run.started` and `run.finished`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from collab.records import Episode, Record
from collab.runs.layout import METRICS
from collab.runs.log import read_lines
from collab.runs.metric_names import SOLVED
from collab.runs.metrics import EVALUATION_FINISHED
from collab.runtime.events import RunFinished, RunStarted
from collab.stats import mean

StepPart = Literal["sampling", "credit", "update", "evaluation"]
Mode = Literal["sampled", "greedy"]


class TrainingProgress(Record):
    """Progress within a step, for display."""

    type: Literal["training.progress"] = "training.progress"
    step: int
    """Current step, counted from 1. Outside a step, the number of training steps before it."""
    phase: StepPart
    done: int = 0
    total: int = 0
    """Number of episodes, or 0 if the part does not count them."""


class StepFinished(Record):
    """A training step has ended, with its metrics."""

    type: Literal["step.finished"] = "step.finished"
    step: int
    """Number of the step, counted from 1."""
    steps: int
    """Maximum number of steps of the run."""
    metrics: dict[str, float]
    warnings: tuple[str, ...] = ()
    """Alarms in plain words. Each is raised once while its problem lasts."""
    tokens: int | None = None
    """Number of tokens generated in training so far."""
    of_tokens: int | None = None
    """Number of tokens that ends the run, or None if the number of steps does."""


class TaskResult(Record):
    """Results of one held-out task: the mean joint return of its episodes, and the share solved."""

    joint_return: float
    solved: float | None
    maximum: float | None = None
    """Largest possible return of the episodes, or None in records without it."""


def largest_return(results: Mapping[str, TaskResult]) -> float | None:
    """Return the largest possible return over all tasks, or None if no task has one."""
    return max((r.maximum for r in results.values() if r.maximum is not None), default=None)


def mean_return(results: Mapping[str, TaskResult]) -> float:
    """Return the mean joint return over tasks."""
    return mean([result.joint_return for result in results.values()])


def values_by_task(results: Mapping[str, TaskResult], metric: str) -> dict[str, float]:
    """Return the values of a metric (the return or the share solved), by task."""
    values = {t: r.solved if metric == SOLVED else r.joint_return for t, r in results.items()}
    return {task: value for task, value in values.items() if value is not None}


class Evaluation(Record):
    """Results of the team on held-out tasks."""

    type: Literal["evaluation.finished"] = "evaluation.finished"
    step: int
    """Number of training steps before the evaluation."""
    tokens: int | None = None
    """Number of tokens generated in training before it, or None in records without it."""
    sampled: dict[str, TaskResult]
    """Results by task, with the sampling settings of training."""
    greedy: dict[str, TaskResult] = {}
    failed: int = 0
    """Number of episodes that could not be finished. They do not count."""
    warnings: tuple[str, ...] = ()
    """Failures, and a fall from the best evaluation so far, in plain words."""
    seconds: float = 0.0


def read_evaluations(run: Path) -> list[Evaluation]:
    """Return the held-out evaluations of a training run in order, or [] if it has no metrics."""
    if not (run / METRICS).is_file():
        return []
    lines = read_lines(run / METRICS, _parse_evaluation, "no metrics")
    by_step = {each.step: each for each in lines.items if each is not None and each.sampled}
    return [by_step[step] for step in sorted(by_step)]


def _parse_evaluation(line: bytes) -> Evaluation | None:
    is_evaluation = f'"{EVALUATION_FINISHED}"'.encode() in line
    return Evaluation.model_validate_json(line) if is_evaluation else None


class HeldOut(Record):
    """One episode of an evaluation: a line of `evaluation.jsonl`."""

    step: int
    """Number of training steps before the evaluation."""
    mode: Mode
    episode: Episode


class Gain(Record):
    """Mean over tasks of after - before, paired by task."""

    before: float
    after: float
    gain: float
    error: float | None
    """Standard error of the gain, or None for fewer than two tasks."""
    solved_before: float | None
    solved_after: float | None
    tasks: int
    maximum: float | None = None
    """Largest possible return on any of the tasks, or None if unknown."""


class CheckpointSaved(Record):
    """A checkpoint was written."""

    type: Literal["checkpoint.saved"] = "checkpoint.saved"
    step: int
    path: str


class TrainingFinished(RunFinished):
    """A training run has ended: the last event, with the summary of `run.json`."""


TrainingEvent = (
    RunStarted | TrainingProgress | StepFinished | Evaluation | CheckpointSaved | TrainingFinished
)
