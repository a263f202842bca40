"""Which rank computes which micro-batch."""

from __future__ import annotations

from collections.abc import Sequence


def deal(costs: Sequence[float], world: int) -> list[list[int]]:
    """The places of `costs` by rank, each in order: the largest first to the least loaded.

    Equal ones go by their place, and to the lower rank, so that the deal is the same every time.
    No rank has more than the mean and the largest cost.
    """
    loads = [0.0] * world
    dealt: list[list[int]] = [[] for _ in range(world)]
    for place in sorted(range(len(costs)), key=lambda place: (-costs[place], place)):
        rank = min(range(world), key=lambda rank: (loads[rank], rank))
        loads[rank] += costs[place]
        dealt[rank].append(place)
    return [sorted(places) for places in dealt]
