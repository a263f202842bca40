"""What runs have left, for those who go on with it in Python."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from collab.errors import CollabError, RecordError
from collab.recipe.documents import parse_json
from collab.runs.about import read_about
from collab.runs.layout import METRICS, RUN
from collab.runs.reading import read_lines

STEP, EVALUATION = "step.finished", "evaluation.finished"


def read_metrics(run: str | Path) -> list[dict[str, Any]]:
    """The metrics of a training run, a mapping for each step, whose number is `step`.

    A run at work can be read at every moment.

    Raises:
        RecordError: the folder is no training run's, or a line of its metrics is broken.
    """
    return rows_of(Path(run), STEP)


def rows_of(run: Path, kind: str) -> list[dict[str, Any]]:
    """The lines of a kind in a training run's metrics, without the kind."""
    if not (run / METRICS).is_file():
        raise RecordError(f"{run} is no training run: it has no {METRICS}")
    lines = read_lines(run / METRICS, parse_json, "not JSON")
    if lines.broken:
        raise RecordError(lines.broken[0])
    found = [row for row in lines.found if row.get("type") == kind]
    return [{key: value for key, value in row.items() if key != "type"} for row in found]


def list_runs(folder: str | Path = "runs") -> list[dict[str, Any]]:
    """The runs in a folder, newest first: what the `run.json` of each says, and its `folder`.

    Raises:
        RecordError: there is no such folder.
    """
    root = Path(folder)
    if not root.is_dir():
        raise RecordError(f"{root} is no folder; runs are in runs/ or where out= said")
    found = sorted(root.glob(f"*/{RUN}"), key=lambda path: path.stat().st_mtime, reverse=True)
    return [about for path in found for about in _about(path.parent)]


def _about(run: Path) -> Iterator[dict[str, Any]]:
    """What `run.json` says; of one that cannot be read its folder, and as `status` the reason."""
    try:
        yield {"folder": str(run), **read_about(run)}
    except CollabError as error:
        yield {"folder": str(run), "status": f"cannot be read: {error}"}
