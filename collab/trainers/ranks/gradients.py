"""Gradients of several ranks in one flat tensor: added exactly on a processor, plainly on GPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from collab.errors import TrainingError

SCALE = 2**40
"""Units of an exact sum in 1: it resolves 9e-13."""

Reduce = Callable[[Tensor], None]
"""Replaces a tensor by its sum over all ranks."""


class FlatSum:
    """Adds gradients in float32, as GPUs add them: the last bits depend on the number of ranks."""

    dtype = torch.float32

    def __init__(self, parameters: Sequence[Tensor], reduce: Reduce) -> None:
        self._parameters, self._reduce = parameters, reduce

    def add(self) -> None:
        """Gradients add up where they are made."""

    def finish(self) -> None:
        """As `GradientSum.finish`."""
        flat = self._flat()
        for parameter, (values, there) in zip(self._parameters, self._parts(flat), strict=True):
            if parameter.grad is not None:
                values.copy_(parameter.grad.flatten())
                there.fill_(1)
        self._reduce(flat)
        marks = torch.cat([there for _, there in self._parts(flat)]).tolist()  # waits once
        for parameter, (values, _), mark in zip(
            self._parameters, self._parts(flat), marks, strict=True
        ):
            parameter.grad = values.to(parameter.dtype).view_as(parameter) if mark else None

    def _flat(self) -> Tensor:
        """Every gradient, and behind each whether any rank has it."""
        size = sum(parameter.numel() + 1 for parameter in self._parameters)
        return torch.zeros(size, dtype=self.dtype, device=self._parameters[0].device)

    def _parts(self, flat: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Of each parameter: where its gradient is, and whether there is one."""
        sizes = [size for parameter in self._parameters for size in (parameter.numel(), 1)]
        views = torch.split(flat, sizes)
        return zip(views[::2], views[1::2], strict=True)


class ExactSum(FlatSum):
    """Adds the gradients of micro-batches as integers, so that their order does not matter.

    Each is rounded to a multiple of 1 / SCALE. So the sum is the same bit by bit for any number of
    ranks, whichever of them computed what.
    """

    dtype = torch.int64

    def __init__(self, parameters: Sequence[Tensor], reduce: Reduce, pieces: int) -> None:
        super().__init__(parameters, reduce)
        self._total = torch.cat([self._flat(), torch.zeros(1, dtype=self.dtype)])
        self._most = 2.0**62 / max(1, pieces)  # so that no sum of them can overflow

    @torch.no_grad()
    def add(self) -> None:
        """As `GradientSum.add`.

        Raises:
            TrainingError: a gradient is too large to be added exactly.
        """
        flat, broken = self._total[:-1], self._total[-1:]
        for parameter, (values, there) in zip(self._parameters, self._parts(flat), strict=True):
            if parameter.grad is None:
                continue
            units = parameter.grad.double().flatten() * SCALE
            parameter.grad = None
            largest = float(units.abs().max())
            if largest > self._most and largest != float("inf"):
                raise TrainingError(
                    f"a gradient of {largest / SCALE:g} is too large to be added exactly, which"
                    f" holds up to {self._most / SCALE:g} a micro-batch; lower the weights of the"
                    " reward, or train without --ranks"
                )
            if not units.isfinite().all():
                broken.fill_(1)
                continue
            values.add_(units.round().long())
            there.fill_(1)

    def finish(self) -> None:
        """As `GradientSum.finish`; where any gradient was no number, none is."""
        self._reduce(self._total)
        flat, broken = self._total[:-1], bool(self._total[-1])
        for parameter, (values, there) in zip(self._parameters, self._parts(flat), strict=True):
            own = (values.double() / SCALE).to(parameter.dtype).view_as(parameter)
            own = torch.full_like(own, torch.nan) if broken else own
            parameter.grad = own if bool(there) or broken else None
