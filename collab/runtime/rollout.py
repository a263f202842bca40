"""What comes of a run: its episodes and their summary."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

from collab.records import Episode
from collab.wording import counted

_SHOWN = 20
_HEAD = "<tr><th>episode</th><th>return</th><th>joint answer</th></tr>"


@dataclass(frozen=True, repr=False)
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

    def __repr__(self) -> str:
        solved = sum(episode.solved for episode in self.episodes)
        failed = sum(episode.failure is not None for episode in self.episodes)
        told = [counted(len(self.episodes), "episode"), f"{solved} solved", f"{failed} failed"]
        mean, most = self.summary.get("mean_return"), self.summary.get("largest_return")
        if mean is not None and most is not None:
            told.append(f"mean return {mean:.2f} of {most:.2f}")
        return f"<Rollout: {', '.join(told)}>"

    def _repr_html_(self) -> str:
        """A row for each of the first episodes, for notebooks."""
        shown = "".join(_row(episode) for episode in self.episodes[:_SHOWN])
        return f"<p>{escape(repr(self)[1:-1])}</p><table>{_HEAD}{shown}</table>"


def _row(episode: Episode) -> str:
    worth = "-" if episode.joint_return is None else f"{episode.joint_return:.2f}"
    answer = episode.turns[-1].joint if episode.turns else ""
    cells = (episode.id, worth, episode.failure.type if episode.failure else answer or "")
    told = (f"<td><pre>{escape(str(cell)[:500])}</pre></td>" for cell in cells)
    return f"<tr>{''.join(told)}</tr>"
