"""Upper limits of a device: products, copies, launches, sorts, attention."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch


def _timed(device: str, work: Callable[[], object], times: int) -> float:
    """Seconds of one call, without the first."""

    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    work()
    wait()
    began = time.perf_counter()
    for _ in range(times):
        work()
    wait()
    return (time.perf_counter() - began) / times


def matmul(device: str, *, tiny: bool) -> dict[str, Any]:
    n = 256 if tiny else 8192
    a, b = (torch.randn(n, n, device=device, dtype=torch.bfloat16) for _ in range(2))
    return {"flops_per_second": 2 * n**3 / _timed(device, lambda: a @ b, 10)}


def copy(device: str, *, tiny: bool) -> dict[str, Any]:
    numbers = torch.zeros((1 if tiny else 256) << 20, device=device)
    into = torch.empty_like(numbers)
    seconds = _timed(device, lambda: into.copy_(numbers), 10)
    return {"bytes_per_second": 2 * numbers.nbytes / seconds}


def launch(device: str, *, tiny: bool) -> dict[str, Any]:
    one = torch.zeros(1, device=device)
    return {"seconds_a_kernel": _timed(device, lambda: one.add_(1), 100 if tiny else 10_000)}


def sort(device: str, *, tiny: bool) -> dict[str, Any]:
    """Time the sort of a vocabulary for 128 tokens, which top_p needs."""
    rows, vocabulary = (8, 512) if tiny else (128, 151_936)
    probabilities = torch.randn(rows, vocabulary, device=device).mul(4).softmax(dim=-1)
    return {"sort_seconds": _timed(device, lambda: probabilities.sort(dim=-1, descending=True), 5)}


def attention(device: str, *, tiny: bool) -> dict[str, Any]:
    """Forward and backward over trees of eight responses, under masks and by varlen."""
    from collab.trainers.learner.prefix_tree.attention import TreeAttention
    from collab.trainers.learner.prefix_tree.packing import PrefixTree
    from collab.trainers.learner.prefix_tree.varlen import (
        VarlenAttention,
        branch_plan,
        torch_kernel,
    )

    prompt, response, rows = (16, 8, 1) if tiny else (512, 256, 4)
    responses = [range(1000 * (n + 1), 1000 * (n + 1) + response) for n in range(8)]
    trees = [PrefixTree([*range(prompt), *response] for response in responses)] * rows
    width, place = len(trees[0].tokens), torch.device(device)
    given = [
        torch.randn(rows, heads, width, 128, device=device, dtype=torch.bfloat16).requires_grad_()
        for heads in (16, 2, 2)
    ]
    ways: dict[str, Any] = {"mask": TreeAttention(trees, width, place)}
    if device == "cuda":
        ways["varlen"] = VarlenAttention(branch_plan(trees, width), place, torch_kernel())

    def work(way: Any) -> object:
        read = way.attend(*given, scaling=None)
        return torch.autograd.grad(read.sum(), given)

    return {f"{name}_seconds": _timed(device, partial(work, way), 5) for name, way in ways.items()}


CEILINGS = {part.__name__: part for part in (matmul, copy, launch, sort, attention)}
