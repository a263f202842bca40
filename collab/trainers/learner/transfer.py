"""Moves numbers from Python to the model's device, without waiting for the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def tensor_on(
    values: Sequence[Any], device: torch.device, dtype: torch.dtype | None = None
) -> Tensor:
    """Return the tensor of `values`, nested sequences of numbers, on `device`."""
    return to_device(torch.tensor(values, dtype=dtype), device)


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Move a tensor of the CPU to `device`.

    A GPU copies from pinned memory asynchronously. A copy from other memory would wait for all
    earlier work of the GPU.
    """
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
