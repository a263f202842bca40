"""Reads the results of runs, for use in Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from collab.errors import CollabError, RecordError
from collab.records import Episode
from collab.runs import log
from collab.runs.about import read_about
from collab.runs.layout import METRICS, RUN, RUNS
from collab.runs.metrics import STEP_FINISHED, last_rows, read_rows

if TYPE_CHECKING:
    import pandas


def read_metrics(run: str | Path) -> list[dict[str, Any]]:
    """Return the metrics of a training run: one mapping per step, with the step's number as `step`.

    You can call this at any time, even while the run is in progress.

    Raises:
        RecordError: the folder is not a training run, or a line of its metrics is broken.
    """
    return read_rows_of_type(Path(run), STEP_FINISHED)


def read_rows_of_type(run: Path, kind: str) -> list[dict[str, Any]]:
    """Return the rows of a training run's metrics with type `kind`, without their type.

    Raises:
        RecordError: the folder is not a training run, or a line of its metrics is broken.
    """
    if not (run / METRICS).is_file():
        raise RecordError(f"{run} is not a training run: it has no {METRICS}")
    lines = read_rows(run)
    if lines.broken:
        raise RecordError(lines.broken[0])
    rows = last_rows(lines.items, kind)
    return [{key: value for key, value in row.items() if key != "type"} for row in rows]


def list_runs(folder: str | Path = RUNS) -> list[dict[str, Any]]:
    """Return the runs in a folder, newest first: the content of each `run.json`, and the run's
    `folder`.

    Raises:
        RecordError: there is no such folder.
    """
    root = Path(folder)
    if not root.is_dir():
        raise RecordError(
            f"{root} is not a folder; runs are in {RUNS}/ of the folder in which you made them, or"
            " where out= put them"
        )
    paths = sorted(root.glob(f"*/{RUN}"), key=lambda path: path.stat().st_mtime, reverse=True)
    return [_about(path.parent) for path in paths]


def to_pandas(rows: Iterable[Mapping[str, Any] | Episode]) -> pandas.DataFrame:
    """Return rows, e.g. of `read_metrics`, `list_runs` or `read_episodes`, as a data frame. An
    episode also has the columns `solved`, `joint_return` and `answer`.

    Raises:
        CollabError: pandas is not installed.
    """
    derived = ("solved", "joint_return", "answer")
    return log.to_pandas(
        {**dict(row), **{name: getattr(row, name) for name in derived}}
        if isinstance(row, Episode)
        else row
        for row in rows
    )


def _about(run: Path) -> dict[str, Any]:
    """Return the content of `run.json`. If it is unreadable, the reason is its `status`."""
    try:
        return {**read_about(run), "folder": str(run)}
    except CollabError as error:
        return {"folder": str(run), "status": f"cannot be read: {error}"}
