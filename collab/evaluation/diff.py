"""Compares two recorded runs: settings that differ, results paired by problem."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from operator import attrgetter
from pathlib import Path

from pydantic import Field

from collab.errors import CollabError, RecordError
from collab.evaluation.folder import is_evaluation, read_evaluation
from collab.evaluation.results import Estimate
from collab.evaluation.values import (
    ValuesByMetric,
    estimate_of,
    estimates_of,
    paired_differences,
    task_values,
)
from collab.recipe.differences import file_digests, find_differences, outcome_settings, recipe_in
from collab.records import Record
from collab.records.run import open_run
from collab.runs import metric_names as names
from collab.runs.about import check_holds_run, is_training, read_about, status_of
from collab.runs.layout import EPISODES
from collab.stats import group_by
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
    """One of the two runs of a diff. For a training run, its last held-out evaluation counts."""

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
    values: ValuesByMetric = Field(exclude=True)
    """Values by metric and problem."""
    tasks: frozenset[str] = Field(exclude=True)
    """Addresses of the problems."""
    step: int = Field(default=0, exclude=True)
    """Number of training steps before the held-out evaluation, if there is one."""
    complaints: tuple[str, ...] = Field(default=(), exclude=True)


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
    return [_diff_runs(one, other) for one, other in _folder_pairs(first, second)]


def _folder_pairs(first: Path, second: Path) -> list[tuple[Path, Path]]:
    """Return the folders to compare, by name if both are evaluations of several teams."""
    sides = [_team_folders(folder) for folder in (first, second)]
    if len(sides[0]) == len(sides[1]) == 1:
        return [(next(iter(sides[0].values())), next(iter(sides[1].values())))]
    shared = [name for name in sides[0] if name in sides[1]]
    if not shared:
        folders = " and ".join(f"{', '.join(map(str, side.values()))}" for side in sides)
        raise RecordError(f"no team is in both; specify two folders of {folders}")
    return [(sides[0][name], sides[1][name]) for name in shared]


def _team_folders(folder: Path) -> dict[str, Path]:
    if not is_evaluation(folder):
        check_holds_run(folder)
        return {folder.name: folder}
    folders = sorted(read_evaluation(folder).teams.items())
    teams = {
        label: folder / name for name, label in folders if (folder / name / EPISODES).is_file()
    }
    if not teams:
        raise RecordError(f"{folder}: the evaluation has not started any team")
    return teams


def _diff_runs(first: Path, second: Path) -> RunDiff:
    one, other = read_side(first), read_side(second)
    largest = max(side.largest_return or 0.0 for side in (one, other))
    metrics = {
        name: PairedEstimates(
            first=estimate_of(name, _shared_values(one, other, name), largest),
            second=estimate_of(name, _shared_values(other, one, name), largest),
            difference=difference,
        )
        for name, difference in paired_differences(one.values, other.values, largest).items()
    }
    settings = tuple(
        DifferingSetting(key=key, first=value, second=other_value)
        for key, (value, other_value) in find_differences(_settings(first), _settings(second))
    )
    returns = metrics.get(names.RETURN)
    return RunDiff(
        first=one,
        second=other,
        settings=settings,
        metrics=metrics,
        shared=returns.difference.tasks if returns else 0,
        notes=tuple(_notes(one, other, [setting.key for setting in settings])),
    )


def _shared_values(side: Side, other: Side, name: str) -> list[float]:
    return [value for task, value in side.values[name].items() if task in other.values[name]]


def _notes(one: Side, other: Side, keys: Sequence[str]) -> list[str]:
    notes = [*one.complaints, *other.complaints]
    if not one.tasks & other.tasks:
        notes.append("the two share no problem; collab eval runs teams on the same problems")
    for side in (one, other):
        if side.tasks and not side.values:
            notes.append(f"the answers of {side.folder} are not scored")
    largest = one.largest_return, other.largest_return
    if None not in largest and largest[0] != largest[1]:
        notes.append(
            f"the largest returns differ ({largest[0]} and {largest[1]}); compare the shares"
        )
    settings = [item for side in (one, other) for item in _settings(Path(side.folder)).items()]

    def names_changed_file(part: str) -> bool:
        files = {value.partition(":")[0] for key, value in settings if key.startswith(part)}
        return not files.isdisjoint(keys)

    if any(key.startswith("task.reward") for key in keys) or names_changed_file("task.reward"):
        notes.append("the rewards differ, so points are not comparable")
    if names_changed_file("task.source"):
        notes.append("the rows differ, so an address may name different problems")
    return notes


def read_side(folder: Path) -> Side:
    """Return a run's metrics: for a training run, the held-out metrics before and after it.

    Raises:
        RecordError: there is nothing to read.
    """
    before: ValuesByMetric = {}
    step, complaints = 0, list[str]()
    if is_training(folder) and (evaluations := read_evaluations(folder)):
        first, last = evaluations[0], evaluations[-1]
        about, values = read_about(folder), _evaluation_values(last)
        tasks = frozenset(values.get(names.RETURN, {}))
        before = _evaluation_values(first) if first.step < last.step else {}
        largest, step = largest_return(last.sampled), last.step
    else:
        record = open_run(folder)
        parent = folder.resolve().parent
        evaluation = read_evaluation(parent) if is_evaluation(parent) else None
        episodes = [
            episode
            for episode in record.episodes
            if not episode.further and (evaluation is None or evaluation.counts(episode))
        ]
        groups = group_by(episodes, attrgetter("task"))
        about, values = record.about, task_values(groups, ())
        tasks = frozenset(e.task for e in episodes if not e.failure)
        scored = [e.largest_return for e in record.episodes if e.largest_return is not None]
        largest = max(scored, default=None)
        complaints = [f"{folder}: {complaint}" for complaint in record.complaints]
        if is_training(folder):
            complaints.append(f"{folder} has no held-out evaluation; its training episodes count")
    return Side(
        folder=str(folder),
        team=str(about.get("team", "")),
        status=status_of(about),
        problems=len(tasks),
        metrics=estimates_of(values, largest or 0.0),
        largest_return=largest,
        before=estimates_of(before, largest or 0.0),
        gain=paired_differences(before, values, largest or 0.0),
        values=values,
        tasks=tasks,
        step=step,
        complaints=tuple(complaints),
    )


def _evaluation_values(evaluation: Evaluation) -> ValuesByMetric:
    metrics = (names.RETURN, names.SOLVED)
    values = {metric: values_by_task(evaluation.sampled, metric) for metric in metrics}
    return {metric: by_task for metric, by_task in values.items() if by_task}


def _settings(folder: Path) -> dict[str, str]:
    """Return the recipe's settings, digests of its functions and rows, and versions."""
    recipe = outcome_settings(recipe_in(folder))
    settings = {key: str(value) for key, value in recipe.items()} | file_digests(folder)
    with suppress(CollabError):
        versions = read_about(folder).get("versions", {})
        settings |= {f"versions.{name}": version for name, version in versions.items()}
    return settings
