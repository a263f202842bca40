"""Lists the runs in a folder, one row each, from their small files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from math import isfinite
from pathlib import Path
from typing import Any, Literal

from collab.errors import CollabError
from collab.naming import joint_name
from collab.runs import metric_names as names
from collab.runs.about import read_about, status_of
from collab.runs.layout import EVAL, PROBE, RUN, STUDY, TRAINING
from collab.runs.metrics import read_rows
from collab.stats import mean

RunMeans = dict[str, float | None]
"""Means over episodes: `mean_return`, `largest_return` and `solved`, the share that is solved."""


def _run_outcome(about: Mapping[str, Any]) -> RunMeans:
    """Read the outcome of a finished run from its `run.json`."""
    summary = about.get("summary", {})
    solved, known = (finite_number(summary.get(key)) for key in ("solved", "solvable"))
    share = solved / known if solved is not None and known else None
    returns = {key: finite_number(summary.get(key)) for key in ("mean_return", "largest_return")}
    return {**returns, "solved": share}


def _training_outcome(folder: Path) -> RunMeans:
    """Read the last held-out evaluation, or the last step if there is none yet."""
    try:
        rows = read_rows(folder).items
    except CollabError:
        return {}
    rows.sort(key=lambda row: names.RETURN_MEAN not in row)  # steps first
    outcomes = (_row_outcome(row) for row in reversed(rows))
    return next((outcome for outcome in outcomes if outcome["mean_return"] is not None), {})


def _row_outcome(row: Mapping[str, Any]) -> RunMeans:
    if names.RETURN_MEAN in row:
        keys = (names.RETURN_MEAN, names.RETURN_MAXIMUM, names.SOLVED)
        mean_return, largest, solved = (finite_number(row.get(key)) for key in keys)
    else:
        sampled = row.get("sampled")
        results = sampled.values() if isinstance(sampled, dict) else ()
        tasks = [result for result in results if isinstance(result, dict)]
        mean_return, solved = (_mean_value(tasks, key) for key in ("joint_return", "solved"))
        known = (finite_number(task.get("maximum")) for task in tasks)
        largest = max((value for value in known if value is not None), default=None)
    return {"mean_return": mean_return, "largest_return": largest, "solved": solved}


def _mean_value(tasks: Iterable[Mapping[str, Any]], key: str) -> float | None:
    values = [value for task in tasks if (value := finite_number(task.get(key))) is not None]
    return mean(values) if values else None


def finite_number(value: Any) -> float | None:
    """Return a value if it is a finite number, otherwise None."""
    with suppress(OverflowError):
        if isinstance(value, int | float) and isfinite(value):
            return float(value)
    return None


RunKind = Literal["run", "training", "evaluation", "probe", "study"]


@dataclass(frozen=True)
class RunRow:
    """One row in a list of runs."""

    folder: str
    began: datetime
    kind: RunKind
    team: str
    task: str
    status: str
    """Status in `run.json`, or `killed`, or the reason why it cannot be read."""
    mean_return: float | None = None
    """Mean over episodes, or None in records without it."""
    largest_return: float | None = None
    solved: float | None = None
    """Share of solved episodes, among those whose reward defines `solved`."""

    def data(self) -> dict[str, Any]:
        """Return the row as JSON data."""
        return {**asdict(self), "began": self.began.isoformat(timespec="seconds")}


def list_rows(folders: Iterable[Path]) -> list[RunRow]:
    """Return one row per run in `folders`, newest first. See `find_run_files`."""
    files = {file for folder in folders for file in find_run_files(folder)}
    return sorted((run_row(file.parent) for file in files), key=newest_first)


def holds_runs(folder: Path) -> bool:
    """Return True if a folder contains runs and is not a run itself."""
    return not (folder / RUN).exists() and any(True for _ in find_run_files(folder))


def find_run_files(folder: Path) -> Iterator[Path]:
    """Yield each `run.json` in a folder, also those of teams and cells in its folders."""
    for pattern in (f"*/{RUN}", f"*/*/{RUN}"):
        yield from folder.glob(pattern)


def newest_first(row: RunRow) -> tuple[float, str]:
    """Return the sort key of a row."""
    return -row.began.timestamp(), row.folder


def run_row(folder: Path) -> RunRow:
    """Return the row of a run, read from the run's small files, without the episodes."""
    try:
        about = read_about(folder)
    except CollabError as error:
        reason = f"cannot be read: {error}"
        return RunRow(str(folder), _modified_time(folder), _kind(folder), "", "", reason)
    trained = (folder / TRAINING).exists()
    return RunRow(
        folder=str(folder),
        began=_start_time(folder, about),
        kind=_kind(folder),
        team=str(about.get("team") or joint_name(about.get("agents", ()))),
        task=_format_tasks(about.get("tasks", [])),
        status=status_of(about),
        **(_training_outcome(folder) if trained else _run_outcome(about)),
    )


def _kind(folder: Path) -> RunKind:
    if (folder.parent / EVAL).exists():
        return "evaluation"
    if (folder.parent / STUDY).exists():
        return "study"
    if (folder / TRAINING).exists():
        return "training"
    return "probe" if (folder / PROBE).exists() else "run"


def _start_time(folder: Path, about: Mapping[str, Any]) -> datetime:
    """Return the start time of the run, or for older records the time from its name or its file."""
    with suppress(ValueError, OverflowError):
        return datetime.fromisoformat(str(about.get("started"))).astimezone()
    with suppress(ValueError):
        return datetime.strptime(folder.name[:15], "%Y%m%d-%H%M%S").astimezone()
    return _modified_time(folder)


def _modified_time(folder: Path) -> datetime:
    return datetime.fromtimestamp((folder / RUN).lstat().st_mtime).astimezone()


def _format_tasks(addresses: list[str]) -> str:
    """Name the problem, or the suite and the number of its problems."""
    suites = list(dict.fromkeys(address.rpartition("/")[0] or address for address in addresses))
    if len(addresses) == 1:
        return addresses[0]
    return f"{', '.join(suites)} ({len(addresses)})" if suites else ""
