"""How many episodes were solved after each turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from collab.records.episode import Episode
from collab.stats import mean


def solved_by_turn(episodes: Sequence[Episode]) -> Iterator[tuple[int, float]]:
    """Turns, counted from 1, each with the share of episodes that were solved after it.

    Nothing of teams with one turn, and of rewards that do not say what is solved.
    """
    found = [episode.solved_by_turn for episode in episodes]
    turns = max(map(len, found), default=0)
    for turn in range(turns if turns > 1 else 0):
        yield turn + 1, mean([solved[turn] for solved in found if len(solved) > turn])
