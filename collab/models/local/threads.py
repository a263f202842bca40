"""How many of torch's threads multiply on a CPU."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import torch

SMALL = 64_000_000
"""Bytes of a model whose products are over sooner than a second thread has begun."""


@contextmanager
def fitting(module: Any) -> Iterator[None]:
    """While entered, this thread multiplies alone where the model is small, else with all."""
    if module.device.type != "cpu":
        yield
        return
    threads = _all()
    _take(1 if _bytes(module) <= SMALL else threads)
    try:
        yield
    finally:
        _take(threads)


def _all() -> int:
    """What a thread is given as it begins.

    This one may have begun while another multiplied alone, and have kept to one since.
    """
    with ThreadPoolExecutor(max_workers=1) as fresh:
        return fresh.submit(torch.get_num_threads).result()


def _take(threads: int) -> None:
    if torch.get_num_threads() != threads:  # or torch would forget the products it has compiled
        torch.set_num_threads(threads)


def _bytes(module: Any) -> int:
    return sum(p.numel() * p.element_size() for p in module.parameters())
