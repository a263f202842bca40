"""Checks that several rules share: one reward for the whole team, no opponents."""

from __future__ import annotations

from collab.environments.library import class_of
from collab.errors import RecipeError, TrainingError
from collab.recipe import Recipe, TrainerSpec
from collab.trainers.credit.group import Group, Node, Rewards

REMEDY = "set trainer.algorithm to 'iac', 'rae' or 'marloo'"


def check_one_reward(name: str, recipe: Recipe, spec: TrainerSpec) -> None:
    """Raise RecipeError if agents have rewards of their own."""
    if spec.local_parts:
        raise RecipeError(
            f"algorithm '{name}' learns one reward of the team, and local_parts gives the agents"
            f" returns of their own; leave local_parts out, or {REMEDY}"
        )
    check_no_opponents(name, recipe)


def check_no_opponents(name: str, recipe: Recipe) -> None:
    """Raise RecipeError if one agent's gain is another's loss."""
    environment = recipe.task.environment if recipe.task else None
    if environment is not None and class_of(environment).zero_sum:
        raise RecipeError(
            f"algorithm '{name}' learns one reward of the team, and in the zero-sum game"
            f" '{environment.use}' one agent loses what another one wins; {REMEDY}"
        )


def check_normalise(spec: TrainerSpec) -> None:
    """Raise RecipeError for `normalise: group` with a rule whose baseline is not the group's.

    Its weights are not centred within a group, so the more similar the group's rewards, the larger
    the divided weights.
    """
    if spec.normalise == "group":
        raise RecipeError(
            f"algorithm '{spec.algorithm.use}' has a baseline from other steps, and normalise"
            " 'group' divides by how much the group's own rewards differ, so that the more they"
            " are alike the larger its weights; set normalise to 'none' or 'step'"
        )


def one_reward(group: Group, rewards: Rewards, node: Node) -> float:
    """Return the reward that all agents earned with a joint action.

    Args:
        rewards: the rewards or returns of the group.

    Raises:
        TrainingError: they earned different rewards.
    """
    earned = {agent: rewards[node][agent] for agent in group.agents}
    if len(set(earned.values())) > 1:
        rewards_text = ", ".join(f"{agent} {value:g}" for agent, value in earned.items())
        raise TrainingError(
            f"the algorithm learns one reward of the team, and in {group.task}"
            f" the agents earned different ones ({rewards_text}); {REMEDY}"
        )
    return next(iter(earned.values()))
