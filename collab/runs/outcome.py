"""What came of a run, in two numbers: how much its team earned, and how much of it was solved."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from collab.errors import CollabError
from collab.runs import metric_names as names
from collab.runs.layout import METRICS
from collab.runs.reading import read_lines
from collab.stats import mean


@dataclass(frozen=True)
class Outcome:
    """Means over episodes; None where a record does not say it."""

    mean_return: float | None = None
    largest_return: float | None = None
    solved: float | None = None
    """The share of the episodes that say whether they are solved."""


NO_NUMBERS = Outcome()


def of_run(about: Mapping[str, Any]) -> Outcome:
    """What `run.json` says of a run that came to an end of its own."""
    summary = about.get("summary", {})
    solved, known = (number(summary.get(key)) for key in ("solved", "solvable"))
    return Outcome(
        number(summary.get("mean_return")),
        number(summary.get("largest_return")),
        solved / known if solved is not None and known else None,
    )


def of_training(folder: Path) -> Outcome:
    """The last evaluation on held-out tasks; before there is one, the last step."""
    try:
        rows = read_lines(folder / METRICS, _mapping, "not JSON").found
    except CollabError:
        return NO_NUMBERS
    found = (_of_row(row) for row in reversed(rows))
    return next((outcome for outcome in found if outcome.mean_return is not None), NO_NUMBERS)


def _of_row(row: Mapping[str, Any]) -> Outcome:
    keys = (names.RETURN, names.RETURN_MAXIMUM, names.SOLVED)
    if names.RETURN in row:
        return Outcome(*(number(row.get(key)) for key in keys))
    sampled = row.get("sampled")
    results = sampled.values() if isinstance(sampled, dict) else ()
    tasks = [result for result in results if isinstance(result, dict)]
    largest = _numbers(task.get("maximum") for task in tasks)
    return Outcome(
        _mean(_numbers(task.get("joint_return") for task in tasks)),
        max(largest, default=None),
        _mean(_numbers(task.get("solved") for task in tasks)),
    )


def _mean(values: list[float]) -> float | None:
    return mean(values) if values else None


def _numbers(values: Iterable[Any]) -> list[float]:
    return [value for value in map(number, values) if value is not None]


def number(value: Any) -> float | None:
    """A number that was read; None for what is none, or has no place among floats."""
    with suppress(OverflowError):
        if isinstance(value, int | float) and isfinite(value):
            return float(value)
    return None


def _mapping(line: bytes) -> dict[str, Any]:
    found = json.loads(line)
    if not isinstance(found, dict):
        raise TypeError("not a mapping")
    return found
