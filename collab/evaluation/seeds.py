"""Means over seeds, with Student's t intervals. The value of a seed is a mean over tasks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from math import inf, isclose, sqrt

import numpy as np

from collab.evaluation.intervals import CONFIDENCE
from collab.evaluation.results import OverSeeds, SeedGroup, TeamResult
from collab.runs import metric_names as names
from collab.stats import deviation, mean

SEEDS_CAPTION = f"{100 * CONFIDENCE:g} % t intervals over seeds"
_LABEL = re.compile(r"(?P<name>.+)-seed-(?P<seed>\d+)")
_ROUNDING_TOLERANCE = 1e-9
"""Largest difference that counts as rounding, after averaging and subtracting equal values."""


def seed_groups(teams: Sequence[TeamResult]) -> list[SeedGroup]:
    """Return the means over seeds of each name with several seeds, from the teams' metrics."""
    by_name: dict[str, dict[int, TeamResult]] = {}
    for team in teams:
        if match := _LABEL.fullmatch(team.label):
            by_name.setdefault(match["name"], {})[int(match["seed"])] = team
    groups = {name: by_seed for name, by_seed in by_name.items() if len(by_seed) > 1}
    return [_seed_group(name, groups) for name in groups]


def _seed_group(name: str, groups: Mapping[str, Mapping[int, TeamResult]]) -> SeedGroup:
    by_seed, first = groups[name], next(iter(groups))
    shared = [seed for seed in by_seed if seed in groups[first] and name != first]
    bases, others = [groups[first][seed] for seed in shared], [by_seed[seed] for seed in shared]
    teams = [*by_seed.values()]
    return SeedGroup(
        name=name,
        seeds=tuple(by_seed),
        metrics={
            metric: mean_over_seeds(_means(teams, metric), largest)
            for metric, largest in _shared_metrics(teams)
        },
        baseline=first if shared else "",
        differences={
            metric: change_over_seeds(_changes(bases, others, metric), largest)
            for metric, largest in _shared_metrics([*bases, *others])
        },
    )


def _shared_metrics(teams: Sequence[TeamResult]) -> Iterator[tuple[str, float]]:
    """Yield each metric that all teams have, with its largest possible value."""
    for name in teams[0].metrics if teams else ():
        if all(name in team.metrics for team in teams):
            largest_return = max(team.largest_return or inf for team in teams)
            largest = largest_return if name == names.RETURN else 1.0
            yield name, inf if names.is_count(name) else largest


def _means(teams: Sequence[TeamResult], metric: str) -> list[float]:
    return [team.metrics[metric].mean for team in teams]


def _changes(bases: Sequence[TeamResult], others: Sequence[TeamResult], metric: str) -> list[float]:
    pairs = zip(_means(bases, metric), _means(others, metric), strict=True)
    return [other - base for base, other in pairs]


def mean_over_seeds(values: Sequence[float], largest: float) -> OverSeeds:
    """Return the mean of values up to `largest`; penalties are below 0."""
    return _over_seeds(values, min(0.0, *values), max(largest, *values))


def change_over_seeds(changes: Sequence[float], largest: float) -> OverSeeds:
    """Return the mean of differences of at most `largest` each way."""
    span = max(largest, *map(abs, changes))
    return _over_seeds(changes, -span, span)


def _over_seeds(values: Sequence[float], low: float, high: float) -> OverSeeds:
    """Return the mean, with a t interval within [low, high] unless all values are equal."""
    middle, n = mean(values), len(values)
    if all(isclose(value, values[0], abs_tol=_ROUNDING_TOLERANCE) for value in values):
        return OverSeeds(mean=middle, low=None, high=None, tasks=n)
    half = t_quantile((1 + CONFIDENCE) / 2, n - 1) * deviation(values) / sqrt(n - 1)
    return OverSeeds(
        mean=middle, low=max(low, middle - half), high=min(high, middle + half), tasks=n
    )


@cache
def t_quantile(probability: float, freedom: int) -> float:
    """Return a quantile of Student's t distribution with `freedom` degrees of freedom.

    With t = sqrt(freedom) tan(x), x has a density proportional to cos(x)^(freedom - 1).
    """
    angles = np.linspace(-np.pi / 2, np.pi / 2, 200_001)
    density = np.cos((angles[1:] + angles[:-1]) / 2) ** (freedom - 1)
    below = np.concatenate([[0.0], np.cumsum(density)])
    angle = np.interp(probability, below / below[-1], angles)
    return sqrt(freedom) * float(np.tan(angle))
