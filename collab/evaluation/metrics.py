"""What k tries are worth, estimated from n >= k of them without bias (Chen et al. 2021).

Each estimate is the mean over all subsets of k, by counting them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb, fsum


def pass_at_k(n: int, c: int, k: int) -> float:
    """The chance that one of `k` tries passes, when `c` of `n` did: 1 - C(n-c, k) / C(n, k).

    Counts are whole numbers of any size, so nothing is rounded before the division.
    """
    _check(n, k)
    return (comb(n, k) - comb(n - c, k)) / comb(n, k)


def best_of_k(values: Sequence[float], k: int) -> float:
    """The mean, over all subsets of `k`, of the subset's largest value.

    The i-th smallest of n is the largest of C(i-1, k-1) subsets.
    """
    n = len(values)
    _check(n, k)
    subsets = comb(n, k)
    return fsum(value * (comb(i, k - 1) / subsets) for i, value in enumerate(sorted(values)))


def _check(n: int, k: int) -> None:
    if not 1 <= k <= n:
        raise ValueError(f"{k} tries cannot be estimated from {n} samples")
