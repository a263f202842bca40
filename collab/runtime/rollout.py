"""What comes of a run: its episodes and their summary."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from collab.records import Episode


@dataclass(frozen=True)
class Rollout:
    """The episodes of a run, ordered by problem, then sample."""

    episodes: tuple[Episode, ...]
    summary: dict[str, Any]
    folder: Path | None = None

    @property
    def episode(self) -> Episode:
        """The only episode.

        Raises:
            ValueError: there is not exactly one.
        """
        if len(self.episodes) != 1:
            raise ValueError(f"the rollout has {len(self.episodes)} episodes, not 1")
        return self.episodes[0]

    @cached_property
    def groups(self) -> dict[str, tuple[Episode, ...]]:
        """Episodes by problem address."""
        groups: dict[str, tuple[Episode, ...]] = {}
        for episode in self.episodes:
            groups[episode.task] = (*groups.get(episode.task, ()), episode)
        return groups
