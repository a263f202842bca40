"""Whether a model's attention can follow prefix trees."""

from __future__ import annotations

from typing import Any

import torch

from collab.models.local.attention import ROUNDING, attends_to_all
from collab.trainers.logprobs import states
from collab.trainers.rows import Row
from collab.trainers.samples import Sample

PROBES, PROBE_TOKENS = 8, 4
"""Siblings of the probe, and the tokens of each and of their prompt."""


def can_share(model: Any, device: torch.device) -> bool:
    """Whether responses can share a row with what they begin with in common.

    Not where attention is over a window or changes its scores, nor where states run on from token
    to token. What the configuration leaves open, a probe decides.
    """
    return attends_to_all(model.config.get_text_config()) and _agrees(model, device)


@torch.no_grad()
def _agrees(model: Any, device: torch.device) -> bool:
    """Whether siblings in one row have the states that they have in rows of their own."""
    row = _probe(model.config.get_text_config().vocab_size)
    apart = states(model, [[sample] for sample in row], device)
    try:
        together = states(model, [row], device)
    except (ValueError, TypeError, RuntimeError, IndexError):  # a mask of this shape is refused
        return False
    error = (together - apart).float().norm() / apart.float().norm()
    return bool(error <= ROUNDING.get(apart.dtype, 1e-3))


def _probe(vocabulary: int) -> Row:
    def tokens(start: int) -> tuple[int, ...]:
        return tuple((start + 7 * n) % vocabulary for n in range(PROBE_TOKENS))

    prompt = tokens(0)
    return [
        Sample("", prompt, tokens(n + 1), (0.0,) * PROBE_TOKENS, 1.0, 1.0, 1.0)
        for n in range(PROBES)
    ]
