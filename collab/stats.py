"""Groups, means and deviations, summed without rounding errors, and times of parallel work."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from math import fsum, sqrt
from typing import TypeVar

K = TypeVar("K")
T = TypeVar("T")


def group_by(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Return the items by their value of `key`, in the order of the items."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean, or 0 for no values."""
    return fsum(values) / len(values) if values else 0.0


def deviation(values: Sequence[float]) -> float:
    """Return the population standard deviation, or 0 for no values."""
    middle = mean(values)
    return sqrt(mean([(value - middle) ** 2 for value in values]))


class Stopwatch:
    """Measures the wall time during which at least one task is in progress."""

    def __init__(self) -> None:
        self._active, self._since, self._total = 0, 0.0, 0.0

    def start(self) -> None:
        if not self._active:
            self._since = time.perf_counter()
        self._active += 1

    def stop(self, *_: object) -> None:
        self._active -= 1
        if not self._active:
            self._total += time.perf_counter() - self._since

    __enter__, __exit__ = start, stop

    @property
    def seconds(self) -> float:
        running = time.perf_counter() - self._since if self._active else 0.0
        return self._total + running
