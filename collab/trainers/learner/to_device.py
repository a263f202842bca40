"""Moves numbers from Python to the model's device, without waiting for the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def tensor_on(
    values: Sequence[Any], device: torch.device, dtype: torch.dtype | None = None
) -> Tensor:
    """Return nested sequences of numbers as a tensor on `device`, of the shape of `values`."""
    return to_device(torch.tensor(values, dtype=dtype), device)


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a copy of a CPU tensor of any shape on `device`, made without waiting for a GPU's
    earlier work.

    A GPU copies asynchronously only from pinned memory.
    """
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
