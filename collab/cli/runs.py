"""Reading a run's folder as far as it can be read: it may be cut off or broken."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from collab.errors import RecordError, UnknownName
from collab.records import EPISODES, Episode


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
        raise RecordError(
            f"{folder} does not exist; runs are in the folder runs/ or where --out said"
        )
    from collab.runtime.folder import read_about

    episodes, complaints = read_whole_lines(folder / EPISODES if folder.is_dir() else folder)
    about: dict[str, Any] = {}
    if folder.is_dir():
        try:
            about = read_about(folder)
        except RecordError as error:
            complaints.append(str(error))
    status = about.get("status")
    if status in ("running", "interrupted", "failed"):
        planned = len(about.get("tasks", ())) * int(about.get("samples", 1))
        told = "is still running, or was killed" if status == "running" else f"was {status}"
        complaints.append(f"the run {told}: {len(episodes)} of {planned} episodes finished")
    return RunRecord(about, sorted(episodes, key=lambda e: (e.group, e.sample)), complaints)


def read_whole_lines(path: Path) -> tuple[list[Episode], list[str]]:
    """The lines that are episodes, and a complaint for each one that is not."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}") from error
    *lines, rest = data.split(b"\n")
    episodes, complaints = [], []
    for number, line in enumerate(lines, start=1):
        try:
            episodes.append(Episode.model_validate_json(line))
        except ValidationError as error:
            complaints.append(f"{path}, line {number}: not an episode: {error.errors()[0]['msg']}")
    if rest:
        complaints.append(f"{path}: the last line was cut off and is passed over")
    return episodes, complaints


def select(episodes: list[Episode], name: str) -> list[Episode]:
    """The episodes that `name` means: an id, a problem's address, or a position in the list.

    Raises:
        UnknownName: none; with the nearest id.
    """
    if name.isdecimal() and int(name) < len(episodes):
        return [episodes[int(name)]]
    found = [episode for episode in episodes if name in (episode.id, episode.task)]
    if not found:
        raise UnknownName("episode", name, [episode.id for episode in episodes])
    return found
