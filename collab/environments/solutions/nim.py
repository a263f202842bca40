"""Nim: winning positions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, reduce
from operator import xor


@cache
def wins(heaps: tuple[int, ...]) -> bool:
    """Return True if the player to move can win, by trying all moves."""
    after = (
        tuple(sorted((*heaps[:n], left - taken, *heaps[n + 1 :])))
        for n, left in enumerate(heaps)
        for taken in range(1, left + 1)
    )
    return any(not wins(rest) for rest in after)


def parity(heaps: Sequence[int]) -> bool:
    """Decide the same by Bouton's rule: the sum of the heaps without carry is not 0."""
    return reduce(xor, heaps, 0) != 0
