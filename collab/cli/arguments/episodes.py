"""The episodes of a run that a command line names."""

from __future__ import annotations

from collab.errors import UnknownName
from collab.records import Episode


def select(episodes: list[Episode], name: str) -> list[Episode]:
    """The episodes that `name` means: an id, a problem's address, or a position in the list.

    Raises:
        UnknownName: none; with the nearest id.
    """
    if name.isdecimal() and len(name) < 10 and int(name) < len(episodes):
        return [episodes[int(name)]]
    found = [episode for episode in episodes if name in (episode.id, episode.task)]
    if not found:
        raise UnknownName("episode", name, [episode.id for episode in episodes])
    return found
