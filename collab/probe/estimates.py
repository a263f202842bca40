"""Means over tasks, with their intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from collab.evaluation.intervals import mean_interval
from collab.evaluation.results import Estimate
from collab.records import Score
from collab.stats import mean


def estimate(values: Sequence[float], most: float) -> Estimate:
    """The mean over tasks; penalties may bring a value below 0."""
    if not values:
        return Estimate(mean=0.0, low=0.0, high=most, tasks=0)
    low, high = mean_interval(values, min(0.0, *values), max(most, *values))
    return Estimate(mean=mean(values), low=low, high=high, tasks=len(values))


def share_solved(groups: Iterable[Sequence[Score | None]]) -> Estimate | None:
    """Of the episodes that say whether they are solved."""
    known = [[s.solved for s in group if s and s.solved is not None] for group in groups]
    values = [mean(each) for each in known if each]
    return estimate(values, 1.0) if values else None


def any_solved(groups: Sequence[Sequence[Score]]) -> Estimate | None:
    """Of the tasks: those of which one sample or more is solved."""
    known = [[s.solved for s in group if s.solved is not None] for group in groups]
    values = [float(any(each)) for each in known if each]
    return estimate(values, 1.0) if values else None
