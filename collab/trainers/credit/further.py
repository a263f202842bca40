"""Episodes that were played beside a group, to know what it is to be compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from collab.records import Episode


@dataclass(frozen=True)
class FurtherEpisode:
    """An episode that was played beside a group, which nothing is learned from."""

    episode: Episode
    """Its `further` says what for."""
    of: tuple[int, int]
    """The position in the group of the episode that it belongs to; and of a continuation the turn
    after which it goes on by itself, else -1."""
    rewards: tuple[Mapping[str, float], ...]
    """By turn, those included that it shares: what each trained agent earned."""

    def earned(self, agent: str, discount: float) -> float:
        """The return of an agent from the first turn on that the episode played by itself."""
        own = [rewards[agent] for rewards in self.rewards[self.of[1] + 1 :]]
        own += own[-1:] * self.episode.absorbed
        return fsum(discount**turn * reward for turn, reward in enumerate(own))


def own_episodes(episodes: Sequence[Episode]) -> list[Episode]:
    """The episodes that a team played as it plays, none that were played beside them."""
    return [episode for episode in episodes if not episode.further]
