"""Corrections for a sampler that is not quite the policy: another engine, dtype or version.

rho = pi at the step's start / pi of the sampler, by token. Each correction is a factor on a token's
loss, without gradient; a factor of 0 leaves the token out.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from collab.recipe import TrainerSpec
from collab.trainers.learner.loss.objectives import Tokens


@dataclass(frozen=True)
class Correction:
    """What each token's loss is multiplied by; each [tokens]."""

    factor: Tensor
    ratio: Tensor
    """rho."""
    masked: Tensor
    """Whether the token was left out."""


def correct(tokens: Tokens, difference: Tensor, spec: TrainerSpec) -> Correction:
    """The factor of all corrections that the recipe names.

    `importance_cap`: min(rho, cap), truncated importance sampling. `importance_band`: rho inside of
    the band, 0 outside. `sequence_limit`: 0 for all tokens of a response whose product of rho is
    larger. Without any of them the factor is 1.

    Args:
        difference: log rho, [tokens], without gradient.
    """
    ratio = torch.exp(difference)
    kept = torch.ones_like(ratio, dtype=torch.bool)
    factor = torch.ones_like(ratio)
    if spec.cap_used is not None:
        factor = ratio.clamp(max=spec.cap_used)
    if spec.importance_band is not None:
        low, high = spec.importance_band
        kept = (ratio >= low) & (ratio <= high)
        factor = ratio
    if spec.sequence_limit is not None:
        product = torch.exp(tokens.response_mean(difference) * tokens.lengths(difference))
        kept = kept & (product <= spec.sequence_limit)
    return Correction(torch.where(kept, factor, torch.zeros_like(factor)), ratio, ~kept)
