"""Means and deviations, added up without rounding errors."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, sqrt


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean; 0 of no values."""
    return fsum(values) / len(values) if values else 0.0


def deviation(values: Sequence[float]) -> float:
    """The population standard deviation; 0 of no values."""
    middle = mean(values)
    return sqrt(mean([(value - middle) ** 2 for value in values]))
