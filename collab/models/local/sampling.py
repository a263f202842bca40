"""Draws one token per row, each row with its own settings and random number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from collab.records import Sampling

NUCLEUS_WIDTH = 1024
"""Candidates to consider before sorting a whole vocabulary."""

BLOCK_SIZE = 128
"""Vocabulary entries that are first summed as one block."""


@dataclass(frozen=True)
class BatchSettings:
    """Sampling settings of a batch, as tensors on the model's device."""

    temperature: Tensor  # [rows], 1 where a row is greedy
    has_temperature: bool  # whether some temperature is not 1
    top_p: Tensor  # [rows]
    top_k: Tensor  # [rows], the vocabulary's size where a row keeps all
    uniforms: Tensor  # [rows, steps], in [0, 1)
    unfiltered_rows: Tensor  # indices of the rows that draw from the whole distribution
    filtered_rows: Tensor  # indices of the rows with a top_p or a top_k

    def select(self, rows: Sequence[int]) -> BatchSettings:
        """Return the settings of the rows with these indices, in this order."""
        device = self.temperature.device
        keep = torch.tensor(rows, device=device)
        return BatchSettings(
            temperature=self.temperature[keep],
            has_temperature=self.has_temperature,
            top_p=self.top_p[keep],
            top_k=self.top_k[keep],
            uniforms=self.uniforms[keep],
            unfiltered_rows=torch.isin(keep, self.unfiltered_rows).nonzero()[:, 0],
            filtered_rows=torch.isin(keep, self.filtered_rows).nonzero()[:, 0],
        )


def settings_of(
    samplings: Sequence[Sampling], seeds: Sequence[int], vocabulary: int, device: torch.device
) -> BatchSettings:
    """Return the sampling settings of a batch as tensors. A row's random numbers depend only on its
    seed.
    """
    steps = max(sampling.max_new_tokens for sampling in samplings)
    uniforms = np.stack([np.random.default_rng(seed).random(steps) for seed in seeds])
    filtered = [s.top_p < 1 or 0 < s.top_k < vocabulary for s in samplings]
    drawn = [s.temperature > 0 for s in samplings]
    return BatchSettings(
        temperature=_float_tensor([s.temperature or 1.0 for s in samplings], device),
        has_temperature=any(s.temperature not in (0, 1) for s in samplings),
        top_p=_float_tensor([s.top_p for s in samplings], device),
        top_k=torch.tensor([s.top_k or vocabulary for s in samplings], device=device),
        uniforms=torch.from_numpy(uniforms).to(device),
        unfiltered_rows=_row_indices(
            [d and not f for d, f in zip(drawn, filtered, strict=True)], device
        ),
        filtered_rows=_row_indices([d and f for d, f in zip(drawn, filtered, strict=True)], device),
    )


def draw(logits: Tensor, settings: BatchSettings, step: int) -> tuple[Tensor, Tensor]:
    """Return tokens [rows], drawn from `logits` [rows, vocabulary], and their log-probabilities
    [rows].

    The log-probability is that of the distribution from which the token was drawn: after
    temperature, top_k and top_p, in this order. Greedy rows give that of temperature 1. It is not
    finite if logits are not numbers.
    """
    if settings.has_temperature:
        logits = logits / settings.temperature[:, None]
    probabilities = torch.softmax(logits, dim=-1)
    uniforms = settings.uniforms[:, step]
    if len(settings.unfiltered_rows) == len(logits):
        tokens = _inverse_cdf(probabilities, uniforms)
        return tokens, _token_logprobs(probabilities, tokens)
    tokens = logits.argmax(dim=-1)
    if len(rows := settings.unfiltered_rows):
        tokens[rows] = _inverse_cdf(probabilities[rows], uniforms[rows])
    logprobs = _token_logprobs(probabilities, tokens)
    if len(rows := settings.filtered_rows):
        tokens[rows], logprobs[rows] = _draw_filtered(
            probabilities[rows], settings.top_p[rows], settings.top_k[rows], uniforms[rows]
        )
    return tokens, logprobs


def _token_logprobs(probabilities: Tensor, tokens: Tensor) -> Tensor:
    return probabilities.gather(1, tokens[:, None])[:, 0].log()


def _draw_filtered(
    probabilities: Tensor, top_p: Tensor, top_k: Tensor, uniforms: Tensor
) -> tuple[Tensor, Tensor]:
    """Draw from the likeliest candidates only. Arguments are by row."""
    candidates, index = nucleus(probabilities, top_p, top_k)
    chosen = _inverse_cdf(candidates, uniforms)[:, None]
    logprobs = (candidates.gather(1, chosen)[:, 0] / candidates.sum(dim=-1)).log()
    return index.gather(1, chosen)[:, 0], logprobs


def nucleus(
    probabilities: Tensor, top_p: Tensor, top_k: Tensor, width: int | None = None
) -> tuple[Tensor, Tensor]:
    """Return the most likely tokens of each row, in descending order: weights and indices, [rows,
    candidates].

    Candidates that top_k or top_p excludes have weight 0. `top_k` is the vocabulary's size for a
    row that keeps all. `width` is the largest number of candidates. If it is None, it is computed,
    which waits for the device.
    """
    vocabulary = probabilities.shape[-1]
    if (width or NUCLEUS_WIDTH) < vocabulary:
        candidates, index = probabilities.topk(width or NUCLEUS_WIDTH, dim=-1)
    else:
        candidates, index = probabilities.sort(dim=-1, descending=True)
    enough = (candidates.sum(dim=-1) >= top_p) & (top_k >= vocabulary)
    if width is None and not bool((enough | (top_k <= candidates.shape[-1])).all()):
        candidates, index = probabilities.sort(dim=-1, descending=True)
    rank = torch.arange(candidates.shape[-1], device=candidates.device)
    candidates = candidates.masked_fill(rank >= top_k[:, None], 0.0)
    whole = torch.where(top_k >= vocabulary, 1.0, candidates.sum(dim=-1))
    before = candidates.cumsum(dim=-1) - candidates
    return candidates.masked_fill(before >= (top_p * whole)[:, None], 0.0), index


def _inverse_cdf(weights: Tensor, uniforms: Tensor) -> Tensor:
    """Return for each row the first index whose cumulated weight exceeds `uniforms` of the total.

    Weights are cumulated by blocks, then within the block that is hit. A cumulated sum over a wide
    row would take as long as the rest of the draw. Weights that are not numbers give the last
    index.
    """
    last = weights.shape[-1] - 1
    if missing := -weights.shape[-1] % BLOCK_SIZE:
        weights = functional.pad(weights, (0, missing))
    blocks = weights.view(len(weights), -1, BLOCK_SIZE)
    cumulated = blocks.sum(dim=-1).to(uniforms.dtype).cumsum(dim=-1)  # [rows, blocks]
    targets = uniforms[:, None] * cumulated[:, -1:]
    block = _first_beyond(cumulated, targets).clamp(max=last // BLOCK_SIZE)
    before = functional.pad(cumulated, (1, 0)).gather(1, block)
    hit = blocks.gather(1, block[:, :, None].expand(-1, -1, BLOCK_SIZE))[:, 0]
    place = _first_beyond(hit.to(uniforms.dtype).cumsum(dim=-1), targets - before)
    return (block * BLOCK_SIZE + place)[:, 0].clamp(max=last)


def _first_beyond(cumulated: Tensor, targets: Tensor) -> Tensor:
    """Return [rows, 1], the first index of each row whose value is above its target, both [rows,
    n].

    Rounding may raise a target to the total. The last index with weight is meant then.
    """
    total = cumulated[:, -1:]
    targets = torch.minimum(targets, torch.nextafter(total, -torch.ones_like(total)))
    return torch.searchsorted(cumulated, targets, right=True)


def _float_tensor(values: list[float], device: torch.device) -> Tensor:
    """Convert to float32, even while another thread loads a model and changes torch's default."""
    return torch.tensor(values, dtype=torch.float32, device=device)


def _row_indices(mask: list[bool], device: torch.device) -> Tensor:
    return torch.tensor([row for row, on in enumerate(mask) if on], dtype=torch.long, device=device)
