"""What a recorded run says of its team, problem by problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collab.errors import CollabError
from collab.evaluation.values import Values, task_values
from collab.recipe.dump import reward_in
from collab.records import Episode
from collab.records.run import open_run
from collab.runs import metric_names as names
from collab.runs.about import read_about
from collab.runs.at_work import status_of
from collab.runs.layout import METRICS, TRAINING
from collab.runs.reading import read_lines
from collab.trainers.training.events import Evaluation


@dataclass(frozen=True)
class Played:
    """A run, by metric and problem; of a training on held-out problems at its end."""

    folder: Path
    team: str
    status: str
    values: Values
    largest_return: float | None
    complaints: list[str]
    before: Values | None = None
    """Of a training: the values before it."""


def read_played(folder: Path) -> Played:
    """The values of a run or of a training.

    Raises:
        RecordError: there is nothing to be read.
    """
    if (folder / TRAINING).is_file() and (found := _evaluations(folder)):
        about = read_about(folder)
        first, last = found[0], found[-1]
        largest = [task.maximum for task in last.sampled.values() if task.maximum is not None]
        return Played(
            **_told(folder, about),
            values=_of_evaluation(last),
            largest_return=max(largest, default=None),
            complaints=[],
            before=_of_evaluation(first) if first.step < last.step else None,
        )
    record = open_run(folder)
    groups: dict[str, list[Episode]] = {}
    for episode in record.episodes:
        if not episode.further:
            groups.setdefault(episode.task, []).append(episode)
    scored = [e.largest_return for e in record.episodes if e.largest_return is not None]
    return Played(
        **_told(folder, record.about),
        values=task_values(groups, (), reward_in(folder)),
        largest_return=max(scored, default=None),
        complaints=[f"{folder}: {complaint}" for complaint in record.complaints],
    )


def _told(folder: Path, about: Mapping[str, Any]) -> dict[str, Any]:
    team = str(about.get("team", ""))
    return {"folder": folder, "team": team, "status": status_of(about)}


def _evaluations(folder: Path) -> list[Evaluation]:
    """Those on held-out problems, in order; none where there is nothing to be read."""
    try:
        lines = read_lines(folder / METRICS, _evaluation, "no metrics")
    except CollabError:
        return []
    return [found for found in lines.found if found is not None and found.sampled]


def _evaluation(line: bytes) -> Evaluation | None:
    return Evaluation.model_validate_json(line) if b'"evaluation.finished"' in line else None


def _of_evaluation(found: Evaluation) -> Values:
    values: Values = {
        names.JOINT_RETURN: {task: result.joint_return for task, result in found.sampled.items()}
    }
    solved = {t: r.solved for t, r in found.sampled.items() if r.solved is not None}
    return values | ({names.SOLVED: solved} if solved else {})
