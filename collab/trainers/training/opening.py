"""What a training run tells when it begins."""

from __future__ import annotations

from pathlib import Path

from collab.recipe import Recipe, TrainerSpec
from collab.runtime.events import RunStarted
from collab.runtime.team import versions
from collab.trainers.training.data import TaskOrder


def run_started(recipe: Recipe, spec: TrainerSpec, tasks: TaskOrder, out: Path) -> RunStarted:
    """The first event of a run that is recorded in `out`."""
    return RunStarted(
        run=out.name,
        folder=str(out),
        team=recipe.team.name,
        agents=tuple(recipe.team.agents),
        models={name: recipe.model_of(name).name for name in recipe.team.agents},
        tasks=tuple(problem.address for problem in tasks.training),
        samples=spec.group_size,
        turns=recipe.team.turns,
        seed=recipe.seed,
        isolation=recipe.sandbox.isolation,
        versions=versions(recipe),
    )
