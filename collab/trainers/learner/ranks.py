"""What ranks are to a learner, and how it is to be the only one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, TypeVar

P = TypeVar("P")
T = TypeVar("T")


def nothing() -> None:
    """Do nothing."""


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

    def deal(self, costs: Sequence[float]) -> Sequence[Sequence[int]]:
        """By rank: the places of the pieces of work that are its own, in their order."""

    def together(self, work: Callable[[], list[T]]) -> list[T]:
        """Do this rank's part of a work; returns what all ranks found, rank by rank.

        Raises:
            What failed on any rank, on all of them, with the rank in the message.
        """

    def pass_by_pass(
        self,
        pieces: Sequence[P],
        most: int,
        work: Callable[[P], T],
        pad: Callable[[], object],
        before: Callable[[], None] = nothing,
    ) -> list[T]:
        """What `work` finds in a pass over each of this rank's pieces; `before` precedes each.

        Where every rank holds a part of a model, all of them make `most` passes at the same time,
        and `pad` stands for the pieces that a rank lacks. Raises as `together` then.
        """

    def passing(self) -> AbstractContextManager[None]:
        """Around what a pass computes, which may take all ranks at the same time."""

    def each(self, work: Callable[[], T]) -> T:
        """Do what every rank does for itself; returns its own result, and raises as `together`."""

    def gradients(self, parameters: Sequence[Any], pieces: int) -> GradientSum:
        """The sum of the gradients of `parameters` over `pieces` micro-batches of all ranks."""

    def about(self) -> dict[str, int]:
        """What `run.json` says of them."""


class Alone:
    """The only process: everything is its own, and nothing is summed or told."""

    rank, world = 0, 1

    def deal(self, costs: Sequence[float]) -> Sequence[Sequence[int]]:
        """All of them."""
        return [range(len(costs))]

    def pass_by_pass(
        self,
        pieces: Sequence[P],
        most: int,  # noqa: ARG002
        work: Callable[[P], T],
        pad: Callable[[], object],  # noqa: ARG002
        before: Callable[[], None] = nothing,
    ) -> list[T]:
        """One piece after the other."""
        found = []
        for piece in pieces:
            before()
            found.append(work(piece))
        return found

    def passing(self) -> AbstractContextManager[None]:
        """Nothing else is to be done."""
        return nullcontext()

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
