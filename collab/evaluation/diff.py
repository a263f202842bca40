"""Two recorded runs side by side: settings that differ, results paired by problem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from collab.errors import RecordError
from collab.evaluation.compare import estimate_of, paired
from collab.evaluation.reading import is_evaluation
from collab.evaluation.recorded import Played, read_played
from collab.evaluation.results import Estimate
from collab.evaluation.settings import differing
from collab.records import Record
from collab.runs import metric_names as names
from collab.runs.layout import EPISODES


class Setting(Record):
    """A key that has another value in each; None where one has no such key."""

    key: str
    first: str | None
    second: str | None


class Pair(Record):
    """A metric of both, on the problems that both have a value for, and what lies between them."""

    first: Estimate
    second: Estimate
    difference: Estimate
    """The second less the first, paired by problem."""


class Side(Record):
    folder: str
    team: str
    status: str
    problems: int
    metrics: dict[str, Estimate]
    largest_return: float | None
    before: dict[str, Estimate] = {}
    """Of a training, whose metrics are those of held-out problems at its end: those before it,"""
    gain: dict[str, Estimate] = {}
    """and what lies between, paired by problem."""


class RunDiff(Record):
    first: Side
    second: Side
    settings: tuple[Setting, ...]
    metrics: dict[str, Pair]
    shared: int
    """Problems that both have a value for."""
    notes: tuple[str, ...]
    """In plain words: why numbers are not to be compared, or are missing."""


def diff(first: Path, second: Path) -> list[RunDiff]:
    """What lies between two runs, trainings or evaluations; of evaluations, by team.

    Raises:
        RecordError: a folder that cannot be read, or evaluations that have no team in common.
    """
    return [_diff(one, other) for one, other in _pairs(first, second)]


def _pairs(first: Path, second: Path) -> list[tuple[Path, Path]]:
    """The folders to compare: of evaluations with several teams, those of one name."""
    sides = [_teams(folder) for folder in (first, second)]
    if len(sides[0]) == len(sides[1]) == 1:
        return [(next(iter(sides[0].values())), next(iter(sides[1].values())))]
    shared = [name for name in sides[0] if name in sides[1]]
    if not shared:
        told = " and ".join(f"{', '.join(map(str, side.values()))}" for side in sides)
        raise RecordError(f"no team is in both; give two folders of {told}")
    return [(sides[0][name], sides[1][name]) for name in shared]


def _teams(folder: Path) -> dict[str, Path]:
    if not is_evaluation(folder):
        return {folder.name: folder}
    found = {file.parent.name: file.parent for file in sorted(folder.glob(f"*/{EPISODES}"))}
    if not found:
        raise RecordError(f"{folder}: the evaluation holds no team that was begun")
    return found


def _diff(first: Path, second: Path) -> RunDiff:
    one, other = read_played(first), read_played(second)
    settings = [Setting(key=key, first=a, second=b) for key, a, b in differing(first, second)]
    most = max(side.largest_return or 0.0 for side in (one, other))
    metrics = {
        name: Pair(
            first=estimate_of(name, _shared(one, other, name), most),
            second=estimate_of(name, _shared(other, one, name), most),
            difference=difference,
        )
        for name, difference in paired(one.values, other.values, most).items()
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


def _shared(side: Played, other: Played, name: str) -> list[float]:
    return [value for task, value in side.values[name].items() if task in other.values[name]]


def side_of(played: Played) -> Side:
    """What a run says of itself, with intervals."""
    most = played.largest_return or 0.0
    before = played.before or {}
    return Side(
        folder=str(played.folder),
        team=played.team,
        status=played.status,
        problems=len(played.values.get(names.JOINT_RETURN, {})),
        metrics={name: estimate_of(name, [*v.values()], most) for name, v in played.values.items()},
        largest_return=played.largest_return,
        before={name: estimate_of(name, [*v.values()], most) for name, v in before.items()},
        gain=paired(before, played.values, most),
    )


def _notes(one: Played, other: Played, keys: Sequence[str]) -> list[str]:
    notes = [*one.complaints, *other.complaints]
    tasks: list[Mapping[str, float]] = [
        side.values.get(names.JOINT_RETURN, {}) for side in (one, other)
    ]
    if not set(tasks[0]) & set(tasks[1]):
        notes.append("no problem was played by both; collab eval sets teams on the same problems")
    if one.largest_return != other.largest_return:
        notes.append(
            f"the largest returns differ ({one.largest_return} and {other.largest_return}):"
            " compare the shares"
        )
    if any(key.startswith(("task.reward", "rewards")) for key in keys):
        notes.append("the rewards differ: points are not of one scale")
    if any(key.startswith("data/") for key in keys):
        notes.append("the rows differ: problems of one address may not be the same")
    return notes
