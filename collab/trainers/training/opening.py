"""What a training run opens and tells when it begins."""

from __future__ import annotations

from pathlib import Path

from collab.models.store import StoreProgress
from collab.recipe import Recipe, TrainerSpec
from collab.recipe.model import VLLMModel
from collab.runtime.events import RunStarted
from collab.runtime.team import versions
from collab.trainers.learner.base import Learner
from collab.trainers.learner.learner import TorchLearner
from collab.trainers.learner.policy import Policies, open_policies
from collab.trainers.learner.ranks import Ranks
from collab.trainers.ranks.leading import begin, led, open_together
from collab.trainers.training.data import TaskOrder
from collab.trainers.training.plan.cards import card_of_here
from collab.trainers.training.plan.engines import may_sleep
from collab.trainers.training.plan.plan import make_plan


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


def rested(recipe: Recipe, spec: TrainerSpec, ranks: int) -> Recipe:
    """The recipe, which says that vLLM sleeps while the trainer learns where both do not fit."""
    if not may_sleep(recipe, spec, ranks):
        return recipe
    import torch

    if not torch.cuda.is_available() or not make_plan(recipe, card_of_here(0)).sleeps:
        return recipe
    models = {name: recipe.model_of(name) for name in recipe.team.agents}
    asleep = {
        name: {"model": model.model_copy(update={"sleep": True})}
        for name, model in models.items()
        if isinstance(model, VLLMModel) and model.sleep is None
    }
    return recipe.with_agents(asleep)


def open_learner(
    recipe: Recipe,
    spec: TrainerSpec,
    total_steps: int,
    out: Path,
    *,
    ranks: Ranks,
    loading: StoreProgress | None,
) -> tuple[Policies, Learner]:
    """Open the policies of a team, on every rank, and what learns them; raises as it fails."""
    recipe = rested(begin(ranks, recipe, spec, total_steps, out), spec, ranks.world)
    policies = open_together(
        ranks, lambda load: open_policies(recipe, spec, loading=loading, load=load)
    )
    return policies, led(TorchLearner(policies, spec, total_steps, recipe.seed, ranks), ranks)
