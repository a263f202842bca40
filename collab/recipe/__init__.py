"""The files that users write: pydantic models, and loading them by name with overrides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from collab.lazy import import_name

if TYPE_CHECKING:
    from collab.recipe.approval import about_rows, allow, check_functions
    from collab.recipe.feedback import FeedbackSpec
    from collab.recipe.load import load_recipe, load_task, read_recipe, read_task, read_trainer
    from collab.recipe.recipe import BudgetSpec, Recipe
    from collab.recipe.reward import RewardSpec
    from collab.recipe.sandbox import SandboxSpec
    from collab.recipe.task import SourceSpec, TaskSpec
    from collab.recipe.team import AgentSpec, TeamSpec
    from collab.recipe.trainer import EvaluationSpec, LoraSpec, TrainerSpec

__all__ = [
    "AgentSpec",
    "BudgetSpec",
    "EvaluationSpec",
    "FeedbackSpec",
    "LoraSpec",
    "Recipe",
    "RewardSpec",
    "SandboxSpec",
    "SourceSpec",
    "TaskSpec",
    "TeamSpec",
    "TrainerSpec",
    "about_rows",
    "allow",
    "check_functions",
    "load_recipe",
    "load_task",
    "read_recipe",
    "read_task",
    "read_trainer",
]


def __getattr__(name: str) -> Any:
    """Import a name on first use, since listing what exists needs none of the models."""
    return import_name(name, __name__, __file__)
