"""What happens in an evaluation; between `team.started` and `team.finished`, a run's events."""

from __future__ import annotations

from typing import Literal

from collab.evaluation.results import Results, TeamResult
from collab.records import Record
from collab.runtime import Event


class EvaluationStarted(Record):
    type: Literal["eval.started"] = "eval.started"
    evaluation: str
    folder: str | None
    teams: tuple[str, ...]
    """Their labels."""
    models: tuple[str, ...]
    suite: str
    tasks: tuple[str, ...]
    samples: int
    k: tuple[int, ...]
    seed: int
    isolation: str
    versions: dict[str, str]


class TeamStarted(Record):
    type: Literal["team.started"] = "team.started"
    label: str
    planned: int
    recorded: int
    """Episodes that an earlier call has left, and that are not played again."""


class TeamFinished(Record):
    type: Literal["team.finished"] = "team.finished"
    result: TeamResult


class EvaluationFinished(Record):
    type: Literal["eval.finished"] = "eval.finished"
    results: Results


EvaluationEvent = EvaluationStarted | TeamStarted | Event | TeamFinished | EvaluationFinished
