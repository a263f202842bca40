"""Split sum: one agent writes the last digit of a sum, another one the digits before it.

Each half is right or wrong by itself, so the credit that each agent deserves is known exactly. If
each half is paid, the reward is additive. If only the whole sum is paid, it takes both agents.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from random import Random
from typing import Any, Literal


def split_sum(random: Random, *, level: Literal[1, 2, 3] = 1) -> Iterator[dict[str, Any]]:
    """Yield sums in random order: level 1 like `40 + 7`, 2 without a carry, 3 with one."""
    sums = [pair for pair in product(range(1, 100), repeat=2) if _level(*pair) == level]
    random.shuffle(sums)
    for number, (one, other) in enumerate(sums):
        yield {
            "sum": f"{one} + {other}",
            "last": str((one + other) % 10),
            "leading": str((one + other) // 10),
            "task_id": f"split-sum/{number}",
        }


def _level(one: int, other: int) -> int:
    """Return the level of a sum, or 0 to skip numbers below 10 and pairs of round numbers."""
    small, large = sorted((one, other))
    if small < 10:
        return 1 if large >= 10 and large % 10 == 0 else 0
    if one % 10 == 0 or other % 10 == 0:
        return 0
    return 3 if one % 10 + other % 10 >= 10 else 2
