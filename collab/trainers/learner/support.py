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

ONE_BITS = 0x3F800000
"""Bits of 1.0 in float32. Smaller positive numbers have smaller integers."""


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
    """Return the tokens that the rows `narrow` exclude: [chunk, vocabulary].

    If reading values shows that few candidates suffice, or `top_k` says so, these are sorted.
    Otherwise `top_p` alone becomes a threshold, since sorting a whole vocabulary takes longer on a
    GPU.
    """
    left_out = torch.zeros_like(logits, dtype=torch.bool)
    vocabulary, reads_are_free = logits.shape[1], _reads_are_free(logits.device)
    ranked = [n for n in narrow if reads_are_free or drawn[n].top_k < vocabulary]
    for some in batched(ranked, TOKENS_AT_ONCE):
        rows = tensor_on(some, logits.device)
        of_rows = logits[rows].softmax(dim=-1)
        width = None if reads_are_free else max(drawn[n].top_k for n in some)
        candidates, index = nucleus(of_rows, top_p[rows], top_k[rows], width)
        left = torch.ones_like(of_rows, dtype=torch.bool).scatter_(1, index, candidates == 0)
        left_out[rows] = left
    for some in batched(sorted(set(narrow) - set(ranked)), TOKENS_AT_ONCE):
        rows = tensor_on(some, logits.device)
        of_rows = logits[rows].softmax(dim=-1)
        left_out[rows] = of_rows < least_kept(of_rows, top_p[rows])
    return left_out


def least_kept(probabilities: Tensor, top_p: Tensor) -> Tensor:
    """Return the smallest probability that `top_p` keeps in each row, [rows, 1].

    It bisects floats in the order of their bits. So the tokens with at least this probability are
    those that sorting keeps, except for ties with the last one and for rounding of the sums.
    """
    values = probabilities.float()
    low = torch.zeros(len(values), 1, dtype=torch.int32, device=values.device)
    high = torch.full_like(low, ONE_BITS)
    for _ in range(ONE_BITS.bit_length()):
        middle = (low + high + 1) // 2
        kept = torch.where(values >= middle.view(torch.float32), values, 0.0).sum(-1, keepdim=True)
        enough = kept >= top_p[:, None]
        low, high = torch.where(enough, middle, low), torch.where(enough, high, middle - 1)
    return low.view(torch.float32)


def batched(items: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    """Yield the items in batches of `size`; the last may be smaller."""
    return (items[start : start + size] for start in range(0, len(items), size))
