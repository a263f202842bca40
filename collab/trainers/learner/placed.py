"""Numbers from Python on the model's device, without a wait for what the device still computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def placed(values: Sequence[Any], device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """The tensor of `values`, nested sequences of numbers, on `device`."""
    return moved(torch.tensor(values, dtype=dtype), device)


def moved(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor of the CPU on `device`.

    A GPU copies from pinned memory when it gets to it; a copy from any other memory would wait
    until all that was asked of the GPU before is done.
    """
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
