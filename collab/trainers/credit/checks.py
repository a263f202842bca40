"""Checks that rules share: no opponents, and valid weights."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from collab.environments.library import class_of
from collab.errors import RecipeError, TrainingError
from collab.recipe import Recipe
from collab.trainers.credit.group import Group, Weights

REMEDY = "set trainer.algorithm to 'iac', 'rae' or 'marloo'"


def check_no_opponents(name: str, recipe: Recipe) -> None:
    """Check that the task is not a zero-sum game, which algorithm `name` cannot learn.

    Raises:
        RecipeError: the task is a zero-sum game.
    """
    environment = recipe.task.environment if recipe.task else None
    if environment is not None and class_of(environment).zero_sum:
        raise RecipeError(
            f"algorithm '{name}' learns one reward for the whole team, but in the zero-sum game"
            f" '{environment.use}' agents earn opposite rewards; {REMEDY}"
        )


def check_weights(weights: Sequence[Weights], groups: Sequence[Group], algorithm: str) -> None:
    """Check the weights that a user's algorithm returned: one mapping per group, finite numbers.

    Raises:
        TrainingError: a mapping is missing, or a weight is not finite or belongs to no response.
    """
    if len(weights) != len(groups):
        raise TrainingError(
            f"algorithm '{algorithm}' returned weights for {len(weights)} groups, not {len(groups)}"
        )
    for group, given in zip(groups, weights, strict=True):
        for (episode, turn, agent), weight in given.items():
            whole = episode < len(group.episodes) and turn < len(group.episodes[episode].turns)
            if not whole or agent not in group.agents:
                raise TrainingError(
                    f"algorithm '{algorithm}' returned a weight for episode {episode}, turn {turn},"
                    f" agent '{agent}', which the group does not have"
                )
            numbers = weight if isinstance(weight, Sequence) else [weight]
            if not all(map(isfinite, numbers)):
                raise TrainingError(
                    f"algorithm '{algorithm}' returned the weight {weight} for agent '{agent}' on"
                    f" {group.task}"
                )
