"""Ranks that torchrun has started: what they hand over, agree on and add up.

Two groups of gloo carry what is told, each with a limit of its own, so that a rank that waits for
the first one's play spins on no GPU. NCCL adds gradients and does nothing else.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, TypeVar

import torch.distributed as dist
from torch import Tensor

from collab.errors import TrainingError
from collab.recipe.training.ranks import RanksSpec
from collab.trainers.learner.ranks import GradientSum
from collab.trainers.ranks.dealing import deal
from collab.trainers.ranks.gradients import ExactSum, FlatSum
from collab.trainers.ranks.telling import (
    Outcome,
    RankLost,
    known_to_all,
    outcome_of,
    raise_failures,
)

T = TypeVar("T")

JOIN_SECONDS = 3600.0
"""How long the others wait for the first rank, which may fetch tasks before it begins."""

LOST_SECONDS = 0.5
"""How long a rank that has lost another waits to be ended by torchrun, which says which it was."""


class Group:
    """The `Ranks` of a world that torchrun has started; one rank, too, is a world."""

    def __init__(self) -> None:
        """Wait for all ranks; raises RankLost where one does not come."""
        with _losing("another rank", JOIN_SECONDS):
            dist.init_process_group("gloo", timeout=timedelta(seconds=JOIN_SECONDS))
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self._limit = self._play_limit = JOIN_SECONDS
        self._told = self._handed = dist.group.WORLD
        self._summed: Any = None
        self._lost = False
        self._ending: list[Callable[[], None]] = []

    def wait_no_longer_than(self, spec: RanksSpec) -> None:
        """Take the limits of a recipe from here on; called by every rank."""
        self._limit, self._play_limit = spec.limit, spec.play_limit
        self._told = dist.new_group(backend="gloo", timeout=timedelta(seconds=spec.limit))
        self._handed = dist.new_group(backend="gloo", timeout=timedelta(seconds=spec.play_limit))

    def compute_on(self, device: str) -> None:
        """Say on what type of device this rank computes, `cpu` or `cuda`.

        Raises:
            TrainingError: others compute on another type.
        """
        devices = self._gather(device)
        if len(set(devices)) > 1:
            each = ", ".join(f"rank {rank}: {name}" for rank, name in enumerate(devices))
            raise known_to_all(
                TrainingError(
                    f"ranks compute on different devices ({each}); start as many ranks as there are"
                    " GPUs, or set model.device"
                )
            )
        if device == "cuda":
            limit = timedelta(seconds=self._limit)
            self._summed = dist.new_group(backend="nccl", timeout=limit)

    def hand_over(self, order: T | None = None) -> T:
        """Give the others rank 0's `order`; they wait for it, and get it too."""
        box = [order]
        with self._bounded("rank 0", self._play_limit):
            dist.broadcast_object_list(box, src=0, group=self._handed)
        return box[0]  # type: ignore[return-value]

    def deal(self, costs: Sequence[float]) -> Sequence[int]:
        """As `Ranks.deal`."""
        return deal(costs, self.world)[self.rank]

    def together(self, work: Callable[[], list[T]]) -> list[T]:
        """As `Ranks.together`."""
        outcomes = self._gather(outcome_of(work))
        raise_failures(outcomes)
        return [found for outcome in outcomes for found in outcome.found or []]

    def each(self, work: Callable[[], T]) -> T:
        """As `Ranks.each`."""
        own = outcome_of(work)
        raise_failures(self._gather(Outcome[None](kind=own.kind, text=own.text)))
        return own.found  # type: ignore[return-value]

    def gradients(self, parameters: Sequence[Tensor], pieces: int) -> GradientSum:
        """As `Ranks.gradients`: exact on processors, in float32 on GPUs."""
        if self._summed is None:
            return ExactSum(parameters, self._reduce, pieces)
        return FlatSum(parameters, self._reduce)

    def same(self, what: str, own: Any) -> None:
        """Raise TrainingError unless all ranks have the same."""
        found = self._gather(own)
        others = [rank for rank, value in enumerate(found) if value != found[0]]
        if others:
            raise known_to_all(
                TrainingError(
                    f"{what} of rank {others[0]} are not those of rank 0; go on with --resume, and"
                    " if it comes again, check that all ranks have the same model, versions and"
                    " kind of device"
                )
            )

    def about(self) -> dict[str, int]:
        """As `Ranks.about`."""
        return {"ranks": self.world}

    def on_close(self, end: Callable[[], None]) -> None:
        """Call `end` when the others are left."""
        self._ending.append(end)

    def close(self) -> None:
        """Leave the others; nothing more can be told."""
        while self._ending:
            self._ending.pop()()
        if not self._lost:
            with suppress(RuntimeError):
                dist.destroy_process_group()

    @property
    def is_whole(self) -> bool:
        """Whether no rank has been lost."""
        return not self._lost

    def _gather(self, own: T) -> list[T]:
        """What each rank has, by rank; a rank that does not come is named."""
        found: list[Any] = [None] * self.world
        with self._bounded("another rank", self._limit):
            if self.world > 1:
                limit = timedelta(seconds=self._limit)
                dist.monitored_barrier(self._told, timeout=limit, wait_all_ranks=True)
            dist.all_gather_object(found, own, group=self._told)
        return found

    def _reduce(self, flat: Tensor) -> None:
        with self._bounded("another rank", self._limit):
            dist.all_reduce(flat, group=self._summed or self._told)

    @contextmanager
    def _bounded(self, whom: str, seconds: float) -> Iterator[None]:
        try:
            with _losing(whom, seconds):
                yield
        except RankLost:
            self._lost = True
            raise


@contextmanager
def _losing(whom: str, seconds: float) -> Iterator[None]:
    """Say of which rank an error of gloo or NCCL is."""
    began = time.monotonic()
    try:
        yield
    except RuntimeError as error:
        missing = re.search(r"Ranks? ([\d, ]+?) failed to pass", str(error))
        who = f"rank {missing[1].strip()}" if missing else whom
        if time.monotonic() - began >= seconds:
            why = f"did not come within {seconds:g} s (trainer.ranks.limit)"
        else:
            time.sleep(LOST_SECONDS)
            why = "ended or cannot be reached"
        raise RankLost(f"{who} {why}; go on with --resume") from error
