"""Compares two recorded runs: settings that differ, results paired by problem."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from collab.errors import CollabError, RecordError
from collab.evaluation.folder import is_evaluation
from collab.evaluation.results import Estimate
from collab.evaluation.values import Values, estimate_of, paired_differences, task_values
from collab.recipe.documents import read_mapping
from collab.recipe.overrides import flatten
from collab.recipe.schema import reward_in
from collab.records import Episode, Record
from collab.records.run import open_run
from collab.runs import metric_names as names
from collab.runs.about import read_about, status_of
from collab.runs.layout import DATA, EPISODES, FUNCTIONS, RECIPE, TRAINING
from collab.trainers.training.events import (
    Evaluation,
    largest_return,
    read_evaluations,
    values_by_task,
)


class DifferingSetting(Record):
    """A key with different values. A value is None if its side lacks the key."""

    key: str
    first: str | None
    second: str | None


class PairedEstimates(Record):
    """A metric of both sides on the problems that both ran, and its difference."""

    first: Estimate
    second: Estimate
    difference: Estimate
    """The second estimate minus the first, paired by problem."""


class Side(Record):
    """One of the two runs of a diff."""

    folder: str
    team: str
    status: str
    problems: int
    metrics: dict[str, Estimate]
    largest_return: float | None
    before: dict[str, Estimate] = {}
    """Held-out metrics before a training run. `metrics` are the metrics after it."""
    gain: dict[str, Estimate] = {}
    """Held-out metrics after training minus before it, paired by problem."""


class RunDiff(Record):
    """Differences between two runs in settings and metrics."""

    first: Side
    second: Side
    settings: tuple[DifferingSetting, ...]
    metrics: dict[str, PairedEstimates]
    shared: int
    """Number of problems for which both sides have a value."""
    notes: tuple[str, ...]
    """Reasons why numbers are missing or cannot be compared."""


def diff(first: Path, second: Path) -> list[RunDiff]:
    """Return the differences between two runs or training runs, or between two evaluations by team.

    Raises:
        RecordError: a folder that cannot be read, or evaluations that have no team in common.
    """
    return [_diff(one, other) for one, other in _pairs(first, second)]


def _pairs(first: Path, second: Path) -> list[tuple[Path, Path]]:
    """Return the folders to compare, by name if both are evaluations of several teams."""
    sides = [_teams(folder) for folder in (first, second)]
    if len(sides[0]) == len(sides[1]) == 1:
        return [(next(iter(sides[0].values())), next(iter(sides[1].values())))]
    shared = [name for name in sides[0] if name in sides[1]]
    if not shared:
        folders = " and ".join(f"{', '.join(map(str, side.values()))}" for side in sides)
        raise RecordError(f"no team is in both; specify two folders of {folders}")
    return [(sides[0][name], sides[1][name]) for name in shared]


def _teams(folder: Path) -> dict[str, Path]:
    if not is_evaluation(folder):
        return {folder.name: folder}
    teams = {file.parent.name: file.parent for file in sorted(folder.glob(f"*/{EPISODES}"))}
    if not teams:
        raise RecordError(f"{folder}: the evaluation has not started any team")
    return teams


def _diff(first: Path, second: Path) -> RunDiff:
    one, other = read_played(first), read_played(second)
    settings = [
        DifferingSetting(key=key, first=a, second=b) for key, a, b in differing(first, second)
    ]
    largest = max(side.largest_return or 0.0 for side in (one, other))
    metrics = {
        name: PairedEstimates(
            first=estimate_of(name, _shared(one, other, name), largest),
            second=estimate_of(name, _shared(other, one, name), largest),
            difference=difference,
        )
        for name, difference in paired_differences(one.values, other.values, largest).items()
    }
    returns = metrics.get(names.JOINT_RETURN)
    return RunDiff(
        first=side_of(one),
        second=side_of(other),
        settings=tuple(settings),
        metrics=metrics,
        shared=returns.difference.tasks if returns else 0,
        notes=tuple(_notes(one, other, [setting.key for setting in settings])),
    )


def _shared(side: PlayedRun, other: PlayedRun, name: str) -> list[float]:
    return [value for task, value in side.values[name].items() if task in other.values[name]]


def side_of(played: PlayedRun) -> Side:
    """Return one side of a diff: a run's metrics, each with its interval."""
    largest = played.largest_return or 0.0
    before = played.before or {}
    return Side(
        folder=str(played.folder),
        team=played.team,
        status=played.status,
        problems=len(played.values.get(names.JOINT_RETURN, {})),
        metrics={
            name: estimate_of(name, [*v.values()], largest) for name, v in played.values.items()
        },
        largest_return=played.largest_return,
        before={name: estimate_of(name, [*v.values()], largest) for name, v in before.items()},
        gain=paired_differences(before, played.values, largest),
    )


def _notes(one: PlayedRun, other: PlayedRun, keys: Sequence[str]) -> list[str]:
    notes = [*one.complaints, *other.complaints]
    tasks: list[Mapping[str, float]] = [
        side.values.get(names.JOINT_RETURN, {}) for side in (one, other)
    ]
    if not set(tasks[0]) & set(tasks[1]):
        notes.append("the two share no problem; collab eval runs teams on the same problems")
    if one.largest_return != other.largest_return:
        notes.append(
            f"the largest returns differ ({one.largest_return} and {other.largest_return});"
            " compare the shares"
        )
    if any(key.startswith(("task.reward", "rewards")) for key in keys):
        notes.append("the rewards differ, so points are not comparable")
    if any(key.startswith("data/") for key in keys):
        notes.append("the rows differ, so an address may name different problems")
    return notes


@dataclass(frozen=True)
class PlayedRun:
    """Values of a run by metric and problem. For a training run, its last held-out values."""

    folder: Path
    team: str
    status: str
    values: Values
    largest_return: float | None
    complaints: list[str]
    before: Values | None = None
    """The held-out values before a training run."""


def read_played(folder: Path) -> PlayedRun:
    """Return a run's values by metric and problem: for a training run, the held-out values before
    and after it.

    Raises:
        RecordError: there is nothing to read.
    """
    if (folder / TRAINING).is_file() and (evaluations := read_evaluations(folder)):
        about = read_about(folder)
        first, last = evaluations[0], evaluations[-1]
        return PlayedRun(
            **_about(folder, about),
            values=_of_evaluation(last),
            largest_return=largest_return(last.sampled),
            complaints=[],
            before=_of_evaluation(first) if first.step < last.step else None,
        )
    record = open_run(folder)
    groups: dict[str, list[Episode]] = {}
    for episode in record.episodes:
        if not episode.further:
            groups.setdefault(episode.task, []).append(episode)
    scored = [e.largest_return for e in record.episodes if e.largest_return is not None]
    return PlayedRun(
        **_about(folder, record.about),
        values=task_values(groups, (), reward_in(folder)),
        largest_return=max(scored, default=None),
        complaints=[f"{folder}: {complaint}" for complaint in record.complaints],
    )


def _about(folder: Path, about: Mapping[str, Any]) -> dict[str, Any]:
    team = str(about.get("team", ""))
    return {"folder": folder, "team": team, "status": status_of(about)}


def _of_evaluation(evaluation: Evaluation) -> Values:
    metrics = (names.JOINT_RETURN, names.SOLVED)
    values = {metric: values_by_task(evaluation.sampled, metric) for metric in metrics}
    return {metric: by_task for metric, by_task in values.items() if by_task}


_FOR_PEOPLE = "description"
"""Keys that do not change the results."""
_MANY = 200
"""Longest value to show in full. Of longer values, the beginning and a digest are shown."""


def differing(first: Path, second: Path) -> list[tuple[str, str | None, str | None]]:
    """Return each key with different values in the two folders, and both values as text."""
    one, other = (dict(_settings(folder)) for folder in (first, second))
    return [
        (key, one.get(key), other.get(key))
        for key in dict.fromkeys((*one, *other))
        if one.get(key) != other.get(key)
    ]


def _settings(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the recipe's settings, digests of its functions and rows, and versions."""
    file = next((f for n in (TRAINING, RECIPE) if (f := folder / n).is_file()), None)
    if file is not None:
        for key, value in flatten(read_mapping(file)).items():
            if not key.endswith(_FOR_PEOPLE):
                yield key, _text(value)
    for place in (FUNCTIONS, DATA):
        for path in sorted((folder / place).rglob("*")):
            if path.is_file():
                digest = blake2b(path.read_bytes(), digest_size=6).hexdigest()
                yield path.relative_to(folder).as_posix(), f"contents {digest}"
    try:
        versions = read_about(folder).get("versions", {})
    except CollabError:
        return
    yield from ((f"versions.{name}", version) for name, version in versions.items())


def _text(value: Any) -> str:
    text = str(value)
    if len(text) <= _MANY:
        return text
    digest = blake2b(text.encode("utf-8", "replace"), digest_size=3).hexdigest()
    return f"{text[:_MANY]}... ({len(text)} characters, {digest})"
