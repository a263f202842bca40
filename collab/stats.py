"""Means and deviations, summed without rounding errors."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, sqrt


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean, or 0 for no values."""
    return fsum(values) / len(values) if values else 0.0


def deviation(values: Sequence[float]) -> float:
    """Return the population standard deviation, or 0 for no values."""
    middle = mean(values)
    return sqrt(mean([(value - middle) ** 2 for value in values]))
