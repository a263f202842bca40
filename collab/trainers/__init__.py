"""Training: credit and gradients for episodes that the runtime produces.

import asyncio
from pathlib import Path

from collab import load_recipe
from collab.trainers import TrainingRun

recipe = load_recipe("examples/recipes/humaneval-cpu.yaml")
asyncio.run(TrainingRun(recipe, Path("runs/first")).run())
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from collab.lazy import import_name

if TYPE_CHECKING:
    from collab.trainers.credit import Group, Weights, compare
    from collab.trainers.training.plan.plan import Plan, make_plan
    from collab.trainers.training.run import TrainingRun

__all__ = ["Group", "Plan", "TrainingRun", "Weights", "compare", "make_plan"]


def __getattr__(name: str) -> Any:
    """Import the public names on first use, so torch is loaded only when training begins."""
    return import_name(name, __name__, __file__)
