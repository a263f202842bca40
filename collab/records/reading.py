"""Reading the episodes that a run has left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from collab.errors import RecordError
from collab.records.episode import Episode
from collab.runs.layout import EPISODES
from collab.runs.log import whole_lines
from collab.runs.reading import each_once


def read_episodes(path: str | Path) -> Iterator[Episode]:
    """The episodes of a run's folder or of an `episodes.jsonl`.

    A last line that was cut off in the middle of being written is passed over, and an episode
    that stands twice is given once.

    Raises:
        RecordError: there is no such file, or a line that is whole is not an episode.
    """
    path = Path(path)
    file = path / EPISODES if path.is_dir() else path
    yield from each_once(_parsed(file), key_of)


def key_of(episode: Episode) -> tuple[str, int, int]:
    """The part of an episode that no other one of its run shares."""
    return episode.id, episode.group, episode.seed


def _parsed(file: Path) -> Iterator[Episode]:
    for number, line in enumerate(whole_lines(file)[0], start=1):
        try:
            yield Episode.model_validate_json(line)
        except ValidationError as error:
            first = error.errors()[0]
            raise RecordError(f"{file}, line {number}: not an episode: {first['msg']}") from error
