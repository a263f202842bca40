"""Episodes of an earlier run, to learn from or to measure by."""

from __future__ import annotations

from pathlib import Path

from collab.errors import RecordError
from collab.records import Episode
from collab.runs.layout import EPISODES
from collab.runs.reading import read_whole_lines


def recorded_episodes(name: str, key: str) -> list[Episode]:
    """The episodes of a run's folder or an `episodes.jsonl`, in their order there.

    `key` is that of the setting that names it, for messages.

    Raises:
        RecordError: there are none, or not all of them can be read.
    """
    path = Path(name)
    file = path / EPISODES if path.is_dir() else path
    if not file.is_file():
        raise RecordError(
            f"{key}: {name} is neither a run's folder nor a file of episodes; give one that has"
            f" {EPISODES}"
        )
    episodes, complaints = read_whole_lines(file, Episode)
    if complaints:
        raise RecordError(f"{key}: {complaints[0]}; mend or remove that line")
    if not episodes:
        raise RecordError(f"{key}: {file} holds no episode")
    return episodes
