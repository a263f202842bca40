"""One reward for all teams of an evaluation, if their own rewards differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from collab.errors import RecipeError, UnknownName
from collab.evaluation.identity import changed_files
from collab.recipe import Recipe, RewardSpec, TaskSpec
from collab.recipe.references import named_in
from collab.trust import Consent, Question, settle

Read = tuple[Recipe, Question]
"""A recipe, and the question before it may run."""


def with_reward_of(
    chosen: str, by_name: Mapping[str, Read], read: Sequence[Read], trust: Consent
) -> list[Read]:
    """Every recipe with the reward of the team `chosen`; functions from elsewhere need a yes now.

    Raises:
        RecipeError: no team has that name, or the team has no reward.
        Untrusted: nobody approved the functions of the reward.
    """
    if chosen not in by_name:
        raise UnknownName("team for --reward-from", chosen, by_name)
    recipe, question = by_name[chosen]
    if recipe.task is None or recipe.task.reward is None:
        raise RecipeError(f"--reward-from {chosen}: its recipe names no reward; name another team")
    reward = recipe.task.reward
    settle(question.about(*(text for _, _, text in named_in(reward))), trust)
    return [_rewarded(other, reward, asked) for other, asked in read]


def why_rewards_differ(one: TaskSpec, other: TaskSpec) -> str:
    """The reason in words; it names files that have changed and are all that differs."""
    rewards = (suite.model_dump(mode="json")["reward"] for suite in (one, other))
    if files := changed_files(*rewards):
        pairs = ", ".join(f"{first} and {second}" for first, second in files)
        return f"their rewards differ because a file has changed ({pairs})"
    return f"the rewards of their suites ('{one.name}', '{other.name}') differ"


def _rewarded(recipe: Recipe, reward: RewardSpec, question: Question) -> Read:
    task = recipe.task and recipe.task.model_copy(update={"reward": reward})
    changed = recipe.model_copy(update={"task": task})
    return changed, question.less(text for _, _, text in named_in(changed))
