"""The files that users write: pydantic models, and loading them by name with overrides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collab.recipe.feedback import FeedbackSpec
    from collab.recipe.load import load_recipe, load_task, read_recipe, read_task, read_trainer
    from collab.recipe.model import ModelSpec, SamplingSpec
    from collab.recipe.question import about_rows, allow, check_functions
    from collab.recipe.recipe import BudgetSpec, Recipe
    from collab.recipe.reward import PartSpec, RewardSpec
    from collab.recipe.sandbox import SandboxSpec
    from collab.recipe.schema import json_schema
    from collab.recipe.task import SourceSpec, TaskSpec
    from collab.recipe.team import AgentSpec, TeamSpec
    from collab.recipe.trainer import (
        EvaluationSpec,
        FilterSpec,
        LevelsSpec,
        LoraSpec,
        PhaseSpec,
        TrainerSpec,
    )

__all__ = [
    "AgentSpec",
    "BudgetSpec",
    "EvaluationSpec",
    "FeedbackSpec",
    "FilterSpec",
    "LevelsSpec",
    "LoraSpec",
    "ModelSpec",
    "PartSpec",
    "PhaseSpec",
    "Recipe",
    "RewardSpec",
    "SamplingSpec",
    "SandboxSpec",
    "SourceSpec",
    "TaskSpec",
    "TeamSpec",
    "TrainerSpec",
    "about_rows",
    "allow",
    "check_functions",
    "json_schema",
    "load_recipe",
    "load_task",
    "read_recipe",
    "read_task",
    "read_trainer",
]
_MODULES = {
    "AgentSpec": "collab.recipe.team",
    "BudgetSpec": "collab.recipe.recipe",
    "EvaluationSpec": "collab.recipe.trainer",
    "FeedbackSpec": "collab.recipe.feedback",
    "FilterSpec": "collab.recipe.trainer",
    "LevelsSpec": "collab.recipe.trainer",
    "LoraSpec": "collab.recipe.trainer",
    "ModelSpec": "collab.recipe.model",
    "PartSpec": "collab.recipe.reward",
    "PhaseSpec": "collab.recipe.trainer",
    "Recipe": "collab.recipe.recipe",
    "RewardSpec": "collab.recipe.reward",
    "SamplingSpec": "collab.recipe.model",
    "SandboxSpec": "collab.recipe.sandbox",
    "SourceSpec": "collab.recipe.task",
    "TaskSpec": "collab.recipe.task",
    "TeamSpec": "collab.recipe.team",
    "TrainerSpec": "collab.recipe.trainer",
    "about_rows": "collab.recipe.question",
    "allow": "collab.recipe.question",
    "check_functions": "collab.recipe.question",
    "json_schema": "collab.recipe.schema",
    "load_recipe": "collab.recipe.load",
    "load_task": "collab.recipe.load",
    "read_recipe": "collab.recipe.load",
    "read_task": "collab.recipe.load",
    "read_trainer": "collab.recipe.load",
}


def __getattr__(name: str) -> Any:
    """Import a name on first use, since listing what exists needs none of the models."""
    if name not in _MODULES:
        raise AttributeError(f"module 'collab.recipe' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULES[name]), name)
