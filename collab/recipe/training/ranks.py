"""How the processes that learn together wait for each other."""

from __future__ import annotations

from pydantic import Field

from collab.recipe.base import Spec


class RanksSpec(Spec):
    """Of a training over several GPUs or processes."""

    shard: bool = False
    """Hold a frozen base that does not fit on one GPU in parts, a part on every rank. Only adapters
    are trained so, and vllm samples. One process holds all of it."""
    limit: float = Field(default=1800.0, gt=0.0)
    """Seconds that ranks wait for one that computes; then the training ends and names it."""
    play_limit: float = Field(default=86400.0, gt=0.0)
    """Seconds that the other ranks wait while the first one plays and judges a step or evaluates
    the team."""
