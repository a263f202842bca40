"""What ranks are to a learner, and how it is to be the only one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class GradientSum(Protocol):
    """The gradients of some parameters, summed over the micro-batches of all ranks."""

    def add(self) -> None:
        """Take the gradients that a micro-batch has left in the parameters."""

    def finish(self) -> None:
        """Leave the sum over all ranks in the parameters; called by every rank."""


class Ranks(Protocol):
    """The processes that take a step together, seen from one of them."""

    rank: int
    """This one, counted from 0."""
    world: int
    """How many there are."""

    def deal(self, costs: Sequence[float]) -> Sequence[int]:
        """The places of the pieces of work that are this rank's, in their order."""

    def together(self, work: Callable[[], list[T]]) -> list[T]:
        """Do this rank's part of a work; returns what all ranks found, rank by rank.

        Raises:
            What failed on any rank, on all of them, with the rank in the message.
        """

    def each(self, work: Callable[[], T]) -> T:
        """Do what every rank does for itself; returns its own result, and raises as `together`."""

    def gradients(self, parameters: Sequence[Any], pieces: int) -> GradientSum:
        """The sum of the gradients of `parameters` over `pieces` micro-batches of all ranks."""

    def about(self) -> dict[str, int]:
        """What `run.json` says of them."""


class Alone:
    """The only process: everything is its own, and nothing is summed or told."""

    rank, world = 0, 1

    def deal(self, costs: Sequence[float]) -> Sequence[int]:
        """All of them."""
        return range(len(costs))

    def together(self, work: Callable[[], list[T]]) -> list[T]:
        """What the work finds."""
        return work()

    def each(self, work: Callable[[], T]) -> T:
        """What the work finds."""
        return work()

    def gradients(self, parameters: Sequence[Any], pieces: int) -> GradientSum:  # noqa: ARG002
        """Gradients add up where they are made."""
        return _InPlace()

    def about(self) -> dict[str, int]:
        """Nothing."""
        return {}


class _InPlace:
    def add(self) -> None:
        """Nothing is to be done."""

    def finish(self) -> None:
        """Nothing is to be done."""


ALONE = Alone()

QUADRATIC_FROM = 4096
"""The width of a row at which attention costs as much as all that grows with its tokens."""


def cost_of(rows: int, width: int) -> float:
    """What a pass over so many rows, padded to `width` tokens, costs: a number to compare."""
    return rows * width * (1 + width / QUADRATIC_FROM)
