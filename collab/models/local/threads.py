"""How many of torch's threads multiply on a CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

SMALL = 64_000_000
"""Bytes of a model whose products are over sooner than a second thread has begun."""


@contextmanager
def fitting(module: Any) -> Iterator[None]:
    """While entered, this thread multiplies alone where the model is small."""
    threads = torch.get_num_threads()
    if threads == 1 or module.device.type != "cpu" or _bytes(module) > SMALL:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _bytes(module: Any) -> int:
    return sum(p.numel() * p.element_size() for p in module.parameters())
