"""Numbers that scores show in addition to their reward parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import fsum
from operator import attrgetter

from collab.recipe.reward import AlarmSpec
from collab.records import PartScore, Score
from collab.stats import group_by, mean


@dataclass(frozen=True)
class Measure:
    """A number from 0 to 1 that scores show in addition to their reward parts."""

    read: Callable[[Score], float | None]
    """Reads the number from a score, or returns None if it has none."""
    best_of: str = ""
    """Name of its best-of-k metric in evaluations, shown as `NAME@k`, or "" for none."""
    level: str = ""
    """The level whose share it is, or "" for none."""
    metric: str = ""
    """Name of its mean over a training step, or "" for none."""
    title: str = ""
    """Title of its curve."""
    column: str = ""
    """Heading of its column in lists of episodes, or "" for none."""
    cell: Callable[[Score], str] = lambda _: ""
    """Formats the cell of a score in that column."""
    describe: Callable[[Score], str] = lambda _: ""
    """Describes the number in words, or returns "" if there is nothing to say."""
    alarm: AlarmSpec | None = None


def level_shares(score: Score) -> dict[str, float]:
    """Return each applicable level's share of its largest possible points."""
    levels = group_by((part for part in score.parts if part.applies), attrgetter("level"))
    shares = {name: _share(parts) for name, parts in levels.items()}
    return {name: share for name, share in shares.items() if share is not None}


def share_of(level: str) -> Callable[[Score], float | None]:
    """Return a function that reads the level's share from a score, or returns None if the level
    does not apply."""
    return lambda score: level_shares(score).get(level)


def _share(parts: Sequence[PartScore]) -> float | None:
    """Return points as a share of the maximum, the mean value for parts without points, or None for
    penalties."""
    largest = fsum(part.weight for part in parts if part.weight > 0)
    if largest:
        return fsum(part.points for part in parts) / largest
    return None if any(part.weight for part in parts) else mean([part.value for part in parts])
