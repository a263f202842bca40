"""The events of an evaluation; a run's events come between `team.started` and `team.finished`."""

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
    """Episodes of an earlier call, which are not played again."""


class TeamFinished(Record):
    type: Literal["team.finished"] = "team.finished"
    result: TeamResult


class EvaluationFinished(Record):
    type: Literal["eval.finished"] = "eval.finished"
    results: Results


EvaluationEvent = EvaluationStarted | TeamStarted | Event | TeamFinished | EvaluationFinished
