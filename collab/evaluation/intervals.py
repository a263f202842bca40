"""Intervals of means over tasks: a Bayesian bootstrap that allows for what was not seen.

Tasks are resampled with Dirichlet weights (Rubin 1981). A plain bootstrap of few or skewed tasks
covers the truth too rarely, since it knows no value beyond those it saw: none at all where every
task failed. Here each limit counts a part of one more task, worse or better than any seen, and the
more so the fewer were seen; for values of 0 and 1 that is close to Jeffreys' interval of a
proportion.
`tests/evaluation/test_intervals.py` measures the coverage.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

CONFIDENCE = 0.95
METHOD = "Bayesian bootstrap over problems that allows for one more, unlike those seen"
"""What kind of interval it is, for captions."""
DRAWS = 5000

_SEED = 20250804
_UNSEEN_VALUE = 0.5
"""How much of a task the unseen one counts for a mean, in which it lies a fifth of the way
from the last value seen to the bound,"""
_TOWARDS_BOUND = 0.2
_UNSEEN_DIFFERENCE = 0.3
"""and for a mean of differences, in which it is as large as the largest, on either side."""
_FEW_VALUES, _FEW_DIFFERENCES = 15, 5
"""With fewer tasks than these it lies farther out."""

Floats = NDArray[np.float64]
Limits = tuple[Floats, Floats]


def mean_interval(values: Sequence[float], low: float, high: float) -> tuple[float, float]:
    """The interval of the mean of `values`, which lie between `low` and `high`."""
    return _floats(mean_limits([values], low, high))


def difference_interval(differences: Sequence[float], span: float) -> tuple[float, float]:
    """The interval of the mean of paired differences, each at most `span` up or down.

    Where all are equal it says what one more pair, unlike them, could do: over many tasks that is
    little, and over a handful nearly `span`.
    """
    return _floats(difference_limits([differences], span))


def mean_limits(samples: ArrayLike, low: float, high: float) -> Limits:
    """As `mean_interval`, for many samples of one size.  # [samples, tasks] -> [samples] each"""
    values = np.asarray(samples, dtype=np.float64)
    smallest, largest = values.min(axis=1), values.max(axis=1)
    constant = largest == smallest
    towards = min(1.0, _TOWARDS_BOUND + _farther(values.shape[1], _FEW_VALUES))
    worse = np.where(constant, low, smallest + towards * (low - smallest))
    better = np.where(constant, high, largest + towards * (high - largest))
    return _limits(values, worse, better, _UNSEEN_VALUE)


def difference_limits(samples: ArrayLike, span: float) -> Limits:
    """As `difference_interval`, for many samples of one size."""
    values = np.asarray(samples, dtype=np.float64)
    constant = np.ptp(values, axis=1) == 0
    largest = np.abs(values).max(axis=1)
    towards = _farther(values.shape[1], _FEW_DIFFERENCES)
    unseen = np.where(constant, span, largest + towards * (span - largest))
    return _limits(values, -unseen, unseen, _UNSEEN_DIFFERENCE)


def _limits(values: Floats, worse: Floats, better: Floats, unseen: float) -> Limits:
    seen, beyond = _weights(values.shape[1], unseen)
    means = values @ seen.T  # [samples, draws]
    tail = (1 - CONFIDENCE) / 2
    lower = np.quantile(means + np.outer(worse, beyond), tail, axis=1)
    upper = np.quantile(means + np.outer(better, beyond), 1 - tail, axis=1)
    return lower, upper


def _farther(tasks: int, few: int) -> float:
    """By how much of the way to the bound the unseen task lies farther out."""
    return _TOWARDS_BOUND * max(0.0, few / tasks - 1.0)


@lru_cache(maxsize=8)
def _weights(n: int, unseen: float) -> tuple[Floats, Floats]:
    """Dirichlet weights of `n` tasks and of the unseen one.  # [draws, n], [draws]"""
    random = np.random.default_rng(_SEED)
    seen, beyond = random.standard_exponential((DRAWS, n)), random.gamma(unseen, size=DRAWS)
    total = seen.sum(axis=1) + beyond
    return seen / total[:, None], beyond / total


def _floats(limits: tuple[Any, Any]) -> tuple[float, float]:
    return float(limits[0][0]), float(limits[1][0])
