"""Reading a run's folder as far as it can be read: it may be cut off or broken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from collab.errors import RecordError
from collab.records import Episode, Record
from collab.runs.about import read_about
from collab.runs.layout import EPISODES
from collab.runs.log import whole_lines
from collab.wording import counted

R = TypeVar("R", bound=Record)
T = TypeVar("T")


@dataclass(frozen=True)
class RunRecord:
    about: dict[str, Any]
    """What `run.json` says; empty where it cannot be read."""
    episodes: list[Episode]
    complaints: list[str]
    """What could not be read, and whether the run came to its end."""


def open_run(folder: Path) -> RunRecord:
    """The episodes of a run, ordered by problem, then sample.

    Raises:
        RecordError: there is nothing to be read.
    """
    if not folder.exists():
        raise RecordError(f"{folder} does not exist; runs are in runs/ or where --out said")
    episodes, complaints = read_whole_lines(
        folder / EPISODES if folder.is_dir() else folder, Episode
    )
    about: dict[str, Any] = {}
    if folder.is_dir():
        try:
            about = read_about(folder)
        except RecordError as error:
            complaints.append(str(error))
    if about.get("status", "done") != "done":
        complaints.append(f"the run {_how_it_ended(about)}: {_how_far(about, len(episodes))}")
    return RunRecord(about, sorted(episodes, key=lambda e: (e.group, e.sample)), complaints)


def _how_it_ended(about: dict[str, Any]) -> str:
    status = about["status"]
    if status == "running":
        return "is still running, or was killed"
    return "failed" if status == "failed" else f"was {status}"


def _how_far(about: dict[str, Any], episodes: int) -> str:
    if "steps" in about:
        steps = counted(about["steps"], "step")
        return f"{counted(episodes, 'episode')} finished in training that takes {steps}"
    planned = len(about.get("tasks", ())) * int(about.get("samples", 1))
    return f"{episodes} of {counted(planned, 'episode')} finished"


def read_whole_lines(path: Path, kind: type[R]) -> tuple[list[R], list[str]]:
    """The lines that are such records, and a complaint for each one that is not."""
    return read_lines(path, kind.model_validate_json, "not an episode")


def read_lines(path: Path, parse: Callable[[bytes], T], refused: str) -> tuple[list[T], list[str]]:
    """What `parse` makes of each line, and a complaint for each line of which it makes nothing.

    A line is refused by `ValueError`, `KeyError` or `TypeError`; `refused` says what it is not.

    Raises:
        RecordError: the file cannot be read.
    """
    lines, is_torn = whole_lines(path)
    found, complaints = [], []
    for number, line in enumerate(lines, start=1):
        try:
            found.append(parse(line))
        except (ValueError, KeyError, TypeError) as error:
            told = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
            complaints.append(f"{path}, line {number}: {refused}: {told}")
    if is_torn:
        complaints.append(f"{path}: the last line was cut off and is passed over")
    return found, complaints
