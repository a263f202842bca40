"""Reads a run's folder as far as possible, because its files may be truncated or broken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from collab.errors import RecordError
from collab.records.episode import Episode
from collab.runs.about import (
    KILLED,
    RUNNING,
    check_holds_run,
    read_about,
    resume_hint,
    status_of,
)
from collab.runs.layout import EPISODES, EVAL, RUN
from collab.runs.log import iterate_lines, read_episode_lines, unique_items
from collab.wording import counted, list_errors


@dataclass(frozen=True)
class RunRecord:
    """The readable part of a run's folder."""

    about: dict[str, Any]
    """Content of `run.json`, empty if it cannot be read."""
    episodes: list[Episode]
    complaints: list[str]
    """Files that could not be read, and a note if the run did not end normally."""


def open_run(folder: Path) -> RunRecord:
    """Return the readable part of a run, with its episodes ordered by problem, then sample.

    Raises:
        RecordError: there is nothing to read.
    """
    check_holds_run(folder)
    if (folder / EVAL).is_file() and not (folder / EPISODES).is_file():
        teams = sorted(str(path.parent) for path in folder.glob(f"*/{RUN}"))
        raise RecordError(f"{folder} is an evaluation; name one of its teams: {', '.join(teams)}")
    lines, complaints = read_episode_lines(
        folder / EPISODES if folder.is_dir() else folder, Episode
    )
    episodes = list(unique_items(lines, episode_key))
    if repeated := len(lines) - len(episodes):
        complaints.append(f"{counted(repeated, 'line')} of {EPISODES} repeated and not counted")
    about: dict[str, Any] = {}
    if folder.is_dir():
        try:
            about = read_about(folder)
        except RecordError as error:
            complaints.append(str(error))
    if about.get("status", "done") != "done":
        further = "" if status_of(about) == RUNNING else resume_hint(folder)
        text = (
            f"the run {_describe_end(about)}: {_describe_progress(about, len(episodes))}{further}"
        )
        complaints.append(text)
    return RunRecord(about, sort_episodes(episodes), complaints)


def _describe_end(about: dict[str, Any]) -> str:
    status = status_of(about)
    if status == RUNNING:
        return "is still running" if "process" in about else "is still running, or was killed"
    if status == KILLED:
        return "was killed"
    return "failed" if status == "failed" else f"was {status}"


def _describe_progress(about: dict[str, Any], episodes: int) -> str:
    takes = [counted(about[key], key[:-1]) for key in ("steps", "tokens") if key in about]
    if takes:
        return f"{counted(episodes, 'episode')} finished; training needs {' or '.join(takes)}"
    planned = len(about.get("tasks", ())) * int(about.get("samples", 1))
    of = f"{episodes} of " if planned else ""  # requests to a server are not planned
    return f"{of}{counted(planned or episodes, 'episode')} finished"


def sort_episodes(episodes: Iterable[Episode]) -> list[Episode]:
    """Return the episodes of a run, ordered by problem, then sample."""
    return sorted(episodes, key=lambda episode: (episode.group, episode.sample))


def episodes_file(path: Path) -> Path:
    """Return the file of episodes of a run's folder, or the path itself if it is no folder."""
    return path / EPISODES if path.is_dir() else path


def read_episodes(path: str | Path) -> Iterator[Episode]:
    """Yield the episodes of a run's folder or of an `episodes.jsonl`.

    A truncated last line is skipped, and a duplicate episode is returned once.

    Raises:
        RecordError: there is no such file, or a complete line is not an episode.
    """
    yield from unique_items(_parse_episodes(episodes_file(Path(path))), episode_key)


def episode_key(episode: Episode) -> tuple[str, int, int]:
    """Return a key that is unique for each episode of a run."""
    return episode.id, episode.group, episode.seed


def _parse_episodes(file: Path) -> Iterator[Episode]:
    for number, line in enumerate(iterate_lines(file), start=1):
        if not line.endswith(b"\n"):
            return
        try:
            yield Episode.model_validate_json(line)
        except ValidationError as error:
            reason = list_errors(error)[0]
            raise RecordError(f"{file}, line {number}: not an episode: {reason}") from error
