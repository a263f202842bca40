"""The processes that learn together, from a learner's point of view. By default there is one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


class GradientSum:
    """Sums the gradients of parameters over micro-batches.

    This class sums in place, on one process.
    """

    def add(self) -> None:
        """Add the gradients that a micro-batch has left in the parameters."""

    def finish(self) -> None:
        """Write the sum over all ranks into the parameters' gradients. Call this on every rank."""


class Ranks:
    """The processes that take a step together, seen from one of them. This class stands for one
    process, and `collab.trainers.ranks.group.ProcessRanks` for several."""

    rank: int = 0
    """Number of this process, from 0."""
    world: int = 1
    """Number of processes."""

    def assign_work(self, costs: Sequence[float]) -> Sequence[Sequence[int]]:
        """Return the positions of each rank's pieces in `costs`, in order: the largest first to the
        least loaded rank.

        Ties are broken by position, then by the lower rank, so the result is always the same. No
        rank exceeds the mean plus the largest cost.
        """
        loads = [0.0] * self.world
        dealt: list[list[int]] = [[] for _ in loads]
        for place in sorted(range(len(costs)), key=lambda place: (-costs[place], place)):
            rank = min(range(self.world), key=lambda rank: (loads[rank], rank))
            loads[rank] += costs[place]
            dealt[rank].append(place)
        return [sorted(places) for places in dealt]

    def gather_results(self, work: Callable[[], list[T]]) -> list[T]:
        """Do this rank's part of the work, and return the results of all ranks, in order of rank.

        Raises:
            Exception: the failure of any rank, raised on all ranks, with the rank in the message.
        """
        return work()

    def gradients(self, parameters: Sequence[Any], pieces: int) -> GradientSum:  # noqa: ARG002
        """Return an object that sums the gradients of `parameters` over all ranks.

        `pieces` is the number of micro-batches of all ranks.
        """
        return GradientSum()

    def about(self) -> dict[str, int]:
        """Return entries of `run.json` about the ranks."""
        return {}


ALONE = Ranks()
