"""Phases of training: few turns first, then more; simple feedback first, then better."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from collab.recipe import Recipe, TrainerSpec


@dataclass(frozen=True)
class Stretch:
    """What holds from one step to another."""

    index: int
    recipe: Recipe
    """With the turns and feedback of the phase."""


def stretches(recipe: Recipe, spec: TrainerSpec) -> list[Stretch]:
    """All phases, the team's own last."""
    ends = accumulate((phase.steps for phase in spec.curriculum), initial=0)
    return [stretch_at(first, recipe, spec) for first in ends]


def stretch_at(step: int, recipe: Recipe, spec: TrainerSpec) -> Stretch:
    """The phase of `step`, counted from 0; after the last one the recipe's own team holds."""
    end = 0
    for index, phase in enumerate(spec.curriculum):
        end += phase.steps
        if step < end:
            changes: dict[str, object] = {"turns": phase.turns}
            if phase.feedback is not None:
                changes["feedback"] = phase.feedback
            team = recipe.team.model_copy(update=changes)
            return Stretch(index, recipe.model_copy(update={"team": team}))
    return Stretch(len(spec.curriculum), recipe)
