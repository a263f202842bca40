"""The tokens that top_p and top_k exclude from the distribution that a response was drawn from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from collab.models.local.sampling import nucleus
from collab.trainers.learner.transfer import tensor_on

TOKENS_AT_ONCE = 128
"""Tokens whose vocabularies are narrowed at once, which takes several times the memory of their
logits."""


class SamplingSettings(NamedTuple):
    """The settings with which a token was drawn."""

    temperature: float
    top_p: float
    top_k: int
    """Top_k, or the vocabulary's size if all of it is kept."""


def _reads_are_free(device: torch.device) -> bool:
    """Return True if values may be read on the host, which makes it wait for a GPU."""
    return device.type == "cpu"


def excluded(
    logits: Tensor,
    top_p: Tensor,
    top_k: Tensor,
    drawn: Sequence[SamplingSettings],
    narrow: Sequence[int],
) -> Tensor:
    """Return a mask, [chunk, vocabulary], of the tokens that top_p or top_k excluded in the rows
    `narrow`.

    On a CPU, reading values may show that few candidates suffice. A GPU sorts the whole vocabulary
    for a `top_p` without `top_k`, because reading values would make the host wait.
    """
    left_out = torch.zeros_like(logits, dtype=torch.bool)
    reads_are_free = _reads_are_free(logits.device)
    for some in batched(narrow, TOKENS_AT_ONCE):
        rows = tensor_on(some, logits.device)
        of_rows = logits[rows].softmax(dim=-1)
        width = None if reads_are_free else max(drawn[n].top_k for n in some)
        candidates, index = nucleus(of_rows, top_p[rows], top_k[rows], width)
        left = torch.ones_like(of_rows, dtype=torch.bool).scatter_(1, index, candidates == 0)
        left_out[rows] = left
    return left_out


def batched(items: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    """Yield the items in batches of `size`; the last may be smaller."""
    return (items[start : start + size] for start in range(0, len(items), size))
