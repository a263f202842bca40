"""Phases of training: few turns first, then more; simple feedback first, then better."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from collab.recipe import Recipe, TrainerSpec


@dataclass(frozen=True)
class Phase:
    """The recipe that holds for some steps of training."""

    index: int
    """The position in the curriculum; its length for the steps after it."""
    recipe: Recipe
    """The run's recipe, with the turns and feedback of the phase."""


def phases(recipe: Recipe, spec: TrainerSpec) -> list[Phase]:
    """All phases in order; the last one has the team's own turns and feedback."""
    ends = accumulate((phase.steps for phase in spec.curriculum), initial=0)
    return [phase_at(first, recipe, spec) for first in ends]


def phase_at(step: int, recipe: Recipe, spec: TrainerSpec) -> Phase:
    """The phase of `step`, counted from 0; after the last one the recipe's own team holds."""
    end = 0
    for index, planned in enumerate(spec.curriculum):
        end += planned.steps
        if step < end:
            changes: dict[str, object] = {"turns": planned.turns}
            if planned.feedback is not None:
                changes["feedback"] = planned.feedback
            team = recipe.team.model_copy(update=changes)
            return Phase(index, recipe.model_copy(update={"team": team}))
    return Phase(len(spec.curriculum), recipe)
