"""Training: credit and gradients for episodes that the runtime plays.

from pathlib import Path
from collab import load_recipe
from collab.trainers import TrainingRun

recipe = load_recipe("examples/recipes/humaneval-cpu.yaml")
asyncio.run(TrainingRun(recipe, Path("runs/first")).run())
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collab.trainers.credit import Group, Weights, compare
    from collab.trainers.training.plan.plan import Plan, make_plan
    from collab.trainers.training.run import TrainingRun

__all__ = ["Group", "Plan", "TrainingRun", "Weights", "compare", "make_plan"]

_ROOMS = {
    "Group": "credit",
    "Plan": "training.plan.plan",
    "TrainingRun": "training.run",
    "Weights": "credit",
    "compare": "credit",
    "make_plan": "training.plan.plan",
}


def __getattr__(name: str) -> Any:
    """Import the public names on first use, so torch is loaded only when training begins."""
    if name not in __all__:
        raise AttributeError(f"module 'collab.trainers' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"collab.trainers.{_ROOMS[name]}"), name)
