"""All that a user writes: pydantic models, and loading them by name with overrides."""

from collab.recipe.feedback import FeedbackSpec
from collab.recipe.load import load_recipe, load_task, read_recipe, read_task
from collab.recipe.model import ModelSpec
from collab.recipe.question import about_rows, check_functions
from collab.recipe.recipe import BudgetSpec, Recipe
from collab.recipe.reward import PartSpec, RewardSpec
from collab.recipe.sampling import SamplingSpec
from collab.recipe.sandbox import SandboxSpec
from collab.recipe.schema import json_schema
from collab.recipe.task import SourceSpec, TaskSpec
from collab.recipe.team import AgentSpec, TeamSpec
from collab.recipe.trainer import TrainerSpec
from collab.recipe.training.curriculum import FilterSpec, LevelsSpec, PhaseSpec
from collab.recipe.training.evaluation import EvaluationSpec
from collab.recipe.training.lora import LoraSpec

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
    "check_functions",
    "json_schema",
    "load_recipe",
    "load_task",
    "read_recipe",
    "read_task",
]
