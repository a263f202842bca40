"""Checks that algorithms share: no opponents, and valid weights."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from collab.environments.library import class_of
from collab.errors import RecipeError, TrainingError
from collab.recipe import Recipe
from collab.trainers.credit.group import Group, ResponseKey, Weights

REMEDY = "set trainer.algorithm to 'iac', 'rae' or 'marloo'"


def check_no_opponents(name: str, recipe: Recipe) -> None:
    """Check that the task is not a zero-sum game, which algorithm `name` cannot learn.

    Raises:
        RecipeError: the task is a zero-sum game.
    """
    environment = recipe.environment
    if environment is not None and class_of(environment).zero_sum:
        raise RecipeError(
            f"algorithm '{name}' learns one reward for the whole team, but in the zero-sum game"
            f" '{environment.use}' agents earn opposite rewards; {REMEDY}"
        )


def check_weights(weights: Sequence[Weights], groups: Sequence[Group], algorithm: str) -> None:
    """Check the weights that a user's algorithm returned: one mapping per group, finite numbers.

    Raises:
        TrainingError: a mapping is missing or of another form, or a weight is not finite or belongs
            to no response.
    """
    if len(weights) != len(groups):
        raise TrainingError(
            f"algorithm '{algorithm}' returned weights for {len(weights)} groups, not {len(groups)}"
        )
    for group, group_weights in zip(groups, weights, strict=True):
        try:
            for key, weight in group_weights.items():
                _check_weight(group, key, weight, algorithm)
        except (AttributeError, TypeError, ValueError) as error:
            raise TrainingError(
                f"algorithm '{algorithm}' returned weights of another form ({error}); return a"
                " mapping from (episode, turn, agent) to a number, or to a list of one number per"
                " token"
            ) from error


def _check_weight(
    group: Group, key: ResponseKey, weight: float | Sequence[float], algorithm: str
) -> None:
    episode, turn, agent = key
    if (episode, turn) not in group.returns or agent not in group.agents:
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
