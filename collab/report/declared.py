"""What the rewards of runs declare: how their parts are called, and what to warn of."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import ValidationError

from collab.recipe.reward import RewardSpec
from collab.report.runs import Run, value_at
from collab.runs import metric_names as names


def reward_of(run: Run) -> RewardSpec | None:
    """The reward of a run; None where its recipe has none that can be read."""
    try:
        return RewardSpec.model_validate(value_at(run.recipe, "task.reward"))
    except ValidationError:
        return None


def names_of_parts(runs: Iterable[Run]) -> dict[str, str]:
    """By metric: what the rewards call it, where they say so."""
    rewards = [reward for run in runs if (reward := reward_of(run))]
    return {
        names.named(pattern, name): part.shown_as
        for reward in rewards
        for name, part in reward.parts.items()
        for pattern in (names.PART, names.VALUE)
        if part.shown_as
    }
