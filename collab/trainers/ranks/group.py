"""Ranks that torchrun has started: they pass orders, agree on outcomes and add gradients.

Messages go through two gloo groups, each with its own time limit. So a rank that waits for rank 0
does not spin on a GPU. NCCL only adds gradients. An exception on one rank is propagated to all.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from collab.errors import CollabError, TrainingError, format_error
from collab.models.out_of_memory import is_out_of_memory
from collab.trainers.learner.ranks import GradientSum, Ranks
from collab.trainers.learner.update import NotFinite, OutOfMemory, StepCancelled

T = TypeVar("T")

KNOWN_TO_ALL, RANK = "is_known_to_all", "rank"
"""Attributes of an exception that all ranks know."""

TYPED_FAILURES = (StepCancelled, NotFinite, OutOfMemory)
"""Failures that keep their type on every rank. All others become a TrainingError there."""


class RankLost(TrainingError):
    """A rank has disappeared or has not arrived, and the others cannot be notified."""


@dataclass(frozen=True)
class RankOutcome(Generic[T]):
    """The outcome of one rank's part of the work."""

    result: T | None = None
    kind: type[Exception] | None = None
    """Type of failure that is raised on every rank."""
    text: str = ""


def outcome_of(work: Callable[[], T]) -> RankOutcome[T]:
    """Run `work`, and return its result, or its exception, as an outcome."""
    try:
        return RankOutcome(result=work())
    except RankLost:
        raise
    except Exception as error:
        kind: type[Exception] = type(error) if isinstance(error, TYPED_FAILURES) else TrainingError
        if is_out_of_memory(error):
            kind = torch.OutOfMemoryError
        known = isinstance(error, (CollabError, *TYPED_FAILURES))
        return RankOutcome(kind=kind, text=str(error) if known else format_error(error))


def raise_failures(outcomes: Sequence[RankOutcome[T]]) -> None:
    """Raise the first failure, if any. It names its rank, unless all ranks failed alike."""
    failed = [(rank, o.kind, o.text) for rank, o in enumerate(outcomes) if o.kind is not None]
    if not failed:
        return
    rank, kind, text = failed[0]
    same = len(failed) == len(outcomes) and len({text for _, _, text in failed}) == 1
    error = known_to_all(kind(text if same else f"rank {rank}: {text}"))
    setattr(error, RANK, rank)
    raise error


def known_to_all(error: Exception) -> Exception:
    """Mark an error that every rank raises itself, so that none reports it, and return it."""
    setattr(error, KNOWN_TO_ALL, True)
    return error


def is_known_to_all(error: BaseException | None) -> bool:
    """Return True if all ranks know of the failure, or cannot be notified."""
    while error is not None:
        if isinstance(error, RankLost) or hasattr(error, KNOWN_TO_ALL):
            return True
        error = error.__cause__
    return False


EXACT_UNITS = 2**40
"""Units per 1 in an exact sum. The resolution is 9e-13."""

Reduce = Callable[[Tensor], None]
"""Replaces a tensor by its sum over all ranks."""


class FlatSum(GradientSum):
    """Adds gradients in float32, as GPUs do: the last bits depend on the number of ranks."""

    dtype = torch.float32

    def __init__(self, parameters: Sequence[Tensor], reduce: Reduce) -> None:
        self._parameters, self._reduce = parameters, reduce

    def finish(self) -> None:
        flat = self._flat()
        for parameter, (values, marker) in zip(self._parameters, self._parts(flat), strict=True):
            if parameter.grad is not None:
                values.copy_(parameter.grad.flatten())
                marker.fill_(1)
        self._reduce(flat)
        marks = torch.cat([marker for _, marker in self._parts(flat)]).tolist()  # one wait
        for parameter, (values, _), mark in zip(
            self._parameters, self._parts(flat), marks, strict=True
        ):
            parameter.grad = values.to(parameter.dtype).view_as(parameter) if mark else None

    def _flat(self) -> Tensor:
        """Return zeros with room for all gradients, and for a mark after each of them."""
        size = sum(parameter.numel() + 1 for parameter in self._parameters)
        return torch.zeros(size, dtype=self.dtype, device=self._parameters[0].device)

    def _parts(self, flat: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield for each parameter the slice of its gradient, and of the mark that there is one."""
        sizes = [size for parameter in self._parameters for size in (parameter.numel(), 1)]
        views = torch.split(flat, sizes)
        return zip(views[::2], views[1::2], strict=True)


class ExactSum(FlatSum):
    """Adds the gradients of micro-batches as integers, so their order does not matter.

    Each gradient is rounded to a multiple of 1 / EXACT_UNITS. The sum is then bitwise the same for
    any number of ranks and any assignment of the work.
    """

    dtype = torch.int64

    def __init__(self, parameters: Sequence[Tensor], reduce: Reduce, pieces: int) -> None:
        super().__init__(parameters, reduce)
        self._total = torch.cat([self._flat(), torch.zeros(1, dtype=self.dtype)])
        self._max_units = 2.0**62 / max(1, pieces)  # so that no sum can overflow

    @torch.no_grad()
    def add(self) -> None:
        """Add a micro-batch's gradients to the sum, and clear them.

        Raises:
            TrainingError: a gradient is too large to be added exactly.
        """
        flat, not_finite = self._total[:-1], self._total[-1:]
        for parameter, (values, marker) in zip(self._parameters, self._parts(flat), strict=True):
            if parameter.grad is None:
                continue
            units = parameter.grad.double().flatten() * EXACT_UNITS
            parameter.grad = None
            largest = float(units.abs().max())
            if largest > self._max_units and largest != float("inf"):
                raise TrainingError(
                    f"a gradient of {largest / EXACT_UNITS:g} is too large to add exactly, limit"
                    f" {self._max_units / EXACT_UNITS:g} per micro-batch; lower the weights of the"
                    " reward, or train without --ranks"
                )
            if not units.isfinite().all():
                not_finite.fill_(1)
                continue
            values.add_(units.round().long())
            marker.fill_(1)

    def finish(self) -> None:
        """Leave the sum in the parameters, with NaN everywhere if any gradient was not finite."""
        self._reduce(self._total)
        flat, not_finite = self._total[:-1], bool(self._total[-1])
        for parameter, (values, marker) in zip(self._parameters, self._parts(flat), strict=True):
            gradient = (values.double() / EXACT_UNITS).to(parameter.dtype).view_as(parameter)
            gradient = torch.full_like(gradient, torch.nan) if not_finite else gradient
            parameter.grad = gradient if bool(marker) or not_finite else None


JOIN_SECONDS = 3600.0
"""Seconds that ranks wait for rank 0, which may first download tasks."""

TIMEOUT_KEY = "trainer.rank_timeout"
PLAY_SECONDS = 86400.0
"""Seconds that the other ranks wait while rank 0 runs, scores or evaluates episodes."""

LOST_SECONDS = 0.5
"""Seconds that a rank waits, after losing another one, for torchrun to report that and end it."""


class ProcessRanks(Ranks):
    """The `Ranks` of a world that torchrun has started. A single rank is also a world."""

    def __init__(self) -> None:
        """Wait for all ranks.

        Raises:
            RankLost: a rank does not arrive.
        """
        self.is_complete = True
        """False once a rank has been lost."""
        with self._time_limit("another rank", JOIN_SECONDS, setting=""):
            dist.init_process_group("gloo", timeout=timedelta(seconds=JOIN_SECONDS))
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self._work_seconds = self._order_seconds = JOIN_SECONDS
        self._message_group = self._order_group = dist.group.WORLD
        self._gradient_group: Any = None
        self.servers = ExitStack()
        """Servers that end when this rank leaves the others."""

    def set_timeout(self, seconds: float) -> None:
        """Wait this long from now on for a rank that computes. Call this on every rank."""
        self._work_seconds, self._order_seconds = seconds, PLAY_SECONDS
        self._message_group = dist.new_group(backend="gloo", timeout=timedelta(seconds=seconds))
        self._order_group = dist.new_group(backend="gloo", timeout=timedelta(seconds=PLAY_SECONDS))

    def announce_device(self, device: str) -> None:
        """Announce the type of this rank's device, `cpu` or `cuda`."""
        self.check_same("the device", device)
        if device == "cuda":
            limit = timedelta(seconds=self._work_seconds)
            self._gradient_group = dist.new_group(backend="nccl", timeout=limit)

    def send_order(self, order: T | None = None) -> T:
        """Send rank 0's `order` to the other ranks, which wait for it, and return it on all."""
        box = [order]
        with self._time_limit("rank 0", self._order_seconds, setting=""):
            dist.broadcast_object_list(box, src=0, group=self._order_group)
        return box[0]  # type: ignore[return-value]

    def gather_results(self, work: Callable[[], list[T]]) -> list[T]:
        outcomes = self._gather(outcome_of(work))
        raise_failures(outcomes)
        return [result for outcome in outcomes for result in outcome.result or []]

    def run_on_each(self, work: Callable[[], T]) -> T:
        """Do work that every rank does for itself, and return its result.

        Raises:
            Exception: the failure of any rank, raised on all ranks, with the rank in the message.
        """
        outcome = outcome_of(work)
        raise_failures(self._gather(RankOutcome[None](kind=outcome.kind, text=outcome.text)))
        return outcome.result  # type: ignore[return-value]

    def gradients(self, parameters: Sequence[Tensor], pieces: int) -> GradientSum:
        """Return a sum of the parameters' gradients: exact on CPUs, in float32 on GPUs."""
        if self._gradient_group is None:
            return ExactSum(parameters, self._reduce, pieces)
        return FlatSum(parameters, self._reduce)

    def check_same(self, what: str, value: Any) -> None:
        """Check that all ranks have the same value. `what` describes it in the error.

        Raises:
            TrainingError: the values differ. Every rank raises this.
        """
        values = self._gather(value)
        rank = next((rank for rank, other in enumerate(values) if other != values[0]), 0)
        if rank:
            raise known_to_all(
                TrainingError(
                    f"{what} of rank {rank}, {values[rank]}, differs from that of rank 0,"
                    f" {values[0]}; continue with --resume. If the error returns, check that all"
                    " ranks have the same model, versions and kind of device"
                )
            )

    def about(self) -> dict[str, int]:
        return {"ranks": self.world}

    def end(self) -> None:
        """Let the other ranks end, and leave them."""
        with suppress(RankLost):
            if self.is_complete:
                self.send_order(None)
        self.close()

    def close(self) -> None:
        """Leave the other ranks. Nothing more can be sent."""
        self.servers.close()
        if self.is_complete:
            with suppress(RuntimeError):
                dist.destroy_process_group()

    def _gather(self, value: T) -> list[T]:
        """Return the values of all ranks, by rank. The error names a rank that does not arrive."""
        values: list[Any] = [None] * self.world
        with self._time_limit("another rank", self._work_seconds):
            if self.world > 1:
                limit = timedelta(seconds=self._work_seconds)
                dist.monitored_barrier(self._message_group, timeout=limit, wait_all_ranks=True)
            dist.all_gather_object(values, value, group=self._message_group)
        return values

    def _reduce(self, flat: Tensor) -> None:
        with self._time_limit("another rank", self._work_seconds):
            dist.all_reduce(flat, group=self._gradient_group or self._message_group)

    @contextmanager
    def _time_limit(self, whom: str, seconds: float, setting: str = TIMEOUT_KEY) -> Iterator[None]:
        """Raise an error of gloo or NCCL as RankLost, with the rank, and the setting of the limit
        if that applied. From then on, the ranks are not complete.
        """
        began = time.monotonic()
        try:
            yield
        except RuntimeError as error:
            self.is_complete = False
            missing = re.search(r"Ranks? ([\d, ]+?) failed to pass", str(error))
            who = f"rank {missing[1].strip()}" if missing else whom
            why = f"did not respond within {seconds:g} s"
            if time.monotonic() - began < seconds:
                time.sleep(LOST_SECONDS)
                why = "ended or cannot be reached"
            elif setting:
                why += f" ({setting})"
            raise RankLost(f"{who} {why}; continue with --resume") from error
