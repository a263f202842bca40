"""The tasks of a training run: which are trained on, in what order, and which are held out."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil

from collab.errors import RecipeError
from collab.recipe import Recipe, TaskSpec, TrainerSpec
from collab.records import Problem
from collab.tasks import open_suite
from collab.trainers.training.recorded import Recorded, kept_episodes
from collab.wording import counted


@dataclass(frozen=True)
class TaskOrder:
    """The tasks that are trained on, in the order of the steps, and those that are held out."""

    training: tuple[Problem, ...]
    held_out: tuple[Problem, ...]
    per_step: int
    seed: int
    suite: TaskSpec
    """The suite as it was read: a dataset on the hub is named with its commit id."""
    recorded: Recorded = field(default_factory=dict)
    """By task, the episodes that are learned from, where `trainer.episodes` names some."""

    def batch(self, step: int) -> list[Problem]:
        """The problems of a step, counted from 0; they depend on the seed and the step alone."""
        epoch, position = divmod(step, self.steps_per_epoch)
        order = list(range(len(self.training)))
        random.Random(f"{self.seed}|order|{epoch}").shuffle(order)
        chosen = order[position * self.per_step : (position + 1) * self.per_step]
        return [self.training[n] for n in chosen]

    @property
    def steps_per_epoch(self) -> int:
        return ceil(len(self.training) / self.per_step)

    def total_steps(self, spec: TrainerSpec) -> int:
        """The most steps that there may be; `spec.tokens` may end the run before."""
        if spec.steps is None and spec.tokens is not None:
            return spec.tokens  # a step generates one at least
        return spec.steps or spec.epochs * self.steps_per_epoch


def choose_tasks(recipe: Recipe, spec: TrainerSpec) -> TaskOrder:
    """Read the recipe's suite, and choose what is trained on and what is held out.

    Raises:
        RecipeError: a problem is both trained on and held out, or has no level.
        TaskError: a selection names no problem.
        RecordError, TrainingError: `trainer.episodes` names nothing to learn from.
    """
    assert recipe.task is not None, "check_recipe has passed"
    suite = open_suite(recipe.task)
    has_split = "train" in recipe.task.splits
    selection = spec.tasks if spec.tasks is not None else ("train" if has_split else "")
    training = suite.select(selection)
    held_out: Sequence[Problem] = ()
    if spec.evaluation is not None:
        held_out = suite.select(spec.evaluation.tasks)
        shared = {p.address for p in training} & {p.address for p in held_out}
        if shared:
            raise RecipeError(
                f"both trained on and held out: {counted(len(shared), 'task')}, e.g. {min(shared)};"
                " set trainer.tasks and trainer.evaluation.tasks to different rows"
            )
    recorded: Recorded = {}
    if spec.episodes is not None:
        recorded = kept_episodes(recipe, spec, {problem.address for problem in training})
        training = [problem for problem in training if problem.address in recorded]
    if spec.levels is not None:
        by_level(training, spec.levels.field)
    return TaskOrder(
        tuple(training),
        tuple(held_out),
        spec.tasks_per_step,
        recipe.seed,
        suite.spec,
        recorded,
    )


def by_level(problems: Sequence[Problem], field: str) -> dict[float, list[Problem]]:
    """The problems by the number in `field`, the lowest first; raises RecipeError without one."""
    found: dict[float, list[Problem]] = {}
    for problem in problems:
        level = {**problem.hidden, **problem.public}.get(field)
        if isinstance(level, bool) or not isinstance(level, int | float):
            told = "no such field" if level is None else f"{level!r:.40}"
            raise RecipeError(
                f"trainer.levels needs a number in the field '{field}' of every task, and"
                f" {problem.address} has {told}; set trainer.levels.field to one that holds it, or"
                " leave trainer.levels out"
            )
        found.setdefault(level, []).append(problem)
    return dict(sorted(found.items()))
