"""Reads `metrics.jsonl`, in which a training run records a row per step and per evaluation."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from collab.runs import metric_names as names
from collab.runs.layout import METRICS
from collab.runs.log import Lines, read_lines

STEP_FINISHED, EVALUATION_FINISHED = "step.finished", "evaluation.finished"
"""Types of rows."""

MetricsRow = dict[str, Any]


def parse_row(line: bytes) -> MetricsRow:
    """Return the row of a line, with the current names of its metrics.

    Raises:
        ValueError, KeyError: the line is no row.
    """
    try:
        row = json.loads(line)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(row, dict):
        raise ValueError("not a mapping")
    if b"\\ud" in line.lower():
        json.dumps(row, ensure_ascii=False).encode()  # refuses half of a surrogate pair
    current = {names.current_name(key): value for key, value in row.items()}
    return {**current, "type": row["type"], "step": row["step"]}


def read_rows(run: Path) -> Lines[MetricsRow]:
    """Return the rows of a training run, or none if it has not finished a step.

    Raises:
        RecordError: the file cannot be read.
    """
    path = run / METRICS
    return read_lines(path, parse_row, "not JSON") if path.is_file() else Lines([], [], "")


def last_rows(rows: Iterable[MetricsRow], kind: str) -> list[MetricsRow]:
    """Return the rows of one type, in order, and only the last one of each step."""
    return list({row["step"]: row for row in rows if row["type"] == kind}.values())
