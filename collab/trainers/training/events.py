"""The typed stream of what happens in training, between `run.started` and `run.finished`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from collab.records import Episode, Record
from collab.runtime.events import RunFinished, RunStarted

StepPart = Literal["sampling", "credit", "update", "evaluation", "filter"]
Mode = Literal["sampled", "greedy"]


class TrainingProgress(Record):
    """How far the work of a step has come; for people who watch."""

    type: Literal["training.progress"] = "training.progress"
    step: int
    """The step under way, counted from 1; for what is no step, the steps of training before it."""
    phase: StepPart
    done: int = 0
    total: int = 0
    """Episodes; 0 where the part does not count them."""


class StepFinished(Record):
    type: Literal["step.finished"] = "step.finished"
    step: int
    """Counted from 1."""
    steps: int
    """The most that there may be."""
    metrics: dict[str, float]
    warnings: tuple[str, ...] = ()
    """Alarms in plain words; each is raised once while its trouble lasts."""
    tokens: int | None = None
    """Generated in training so far."""
    of_tokens: int | None = None
    """The tokens that end the run; None if its steps do."""


class TaskResult(Record):
    """One held-out task: the mean joint return of its episodes, and the share that is solved."""

    joint_return: float
    solved: float | None
    maximum: float | None = None
    """The largest return that they could have had; None in records that do not say it."""


def largest_return(results: Mapping[str, TaskResult]) -> float | None:
    """The largest return on any of the tasks, where it is known."""
    return max((r.maximum for r in results.values() if r.maximum is not None), default=None)


class Evaluation(Record):
    """How the team does on held-out tasks."""

    type: Literal["evaluation.finished"] = "evaluation.finished"
    step: int
    """Steps of training before it."""
    tokens: int | None = None
    """Generated in training before it; None in records that do not say it."""
    sampled: dict[str, TaskResult]
    """Results by task, under the training's own sampling settings."""
    greedy: dict[str, TaskResult] = {}
    failed: int = 0
    """Episodes that could not be finished; they count for nothing."""
    seconds: float = 0.0


class HeldOut(Record):
    """One episode of an evaluation: a line of `evaluation.jsonl`."""

    step: int
    """Steps of training before it."""
    mode: Mode
    episode: Episode


class Gain(Record):
    """The mean over tasks of after - before, paired by task."""

    before: float
    after: float
    gain: float
    error: float | None
    """Standard error of the gain; None for fewer than two tasks."""
    solved_before: float | None
    solved_after: float | None
    tasks: int
    maximum: float | None = None
    """The largest return on any of the tasks; None where it is not known."""


class CheckpointSaved(Record):
    type: Literal["checkpoint.saved"] = "checkpoint.saved"
    step: int
    path: str


TrainingEvent = Annotated[
    RunStarted | TrainingProgress | StepFinished | Evaluation | CheckpointSaved | RunFinished,
    Field(discriminator="type"),
]
