"""The tasks of a training run: order, held-out tasks and phases of the curriculum."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from operator import attrgetter
from pathlib import Path

from collab.errors import RecipeError, RecordError
from collab.recipe import Recipe, TaskSpec, TrainerSpec
from collab.records import Episode, Problem
from collab.records.run import episode_key, episodes_file
from collab.runs.layout import EPISODES
from collab.runs.log import read_episode_lines, unique_items
from collab.runtime.problems import check_episodes
from collab.stats import group_by
from collab.tasks import open_suite
from collab.trainers.credit import algorithm_for
from collab.trainers.credit.sft import Sft
from collab.trainers.credit.shape import Shape
from collab.trainers.training.rollouts import complete_episodes
from collab.wording import counted

TRAIN_SPLIT = "train"

Recorded = Mapping[str, tuple[Episode, ...]]
"""Recorded episodes by task."""


@dataclass(frozen=True)
class TaskOrder:
    """The training tasks, in the order of the steps, and the held-out tasks."""

    training: tuple[Problem, ...]
    held_out: tuple[Problem, ...]
    per_step: int
    seed: int
    suite: TaskSpec
    """The suite as it was read: a dataset on the hub is named with its commit id."""
    recorded: Recorded = field(default_factory=dict)
    """Episodes to learn from, by task, if `trainer.learn_from` is set."""

    def batch(self, step: int) -> list[Problem]:
        """Return the problems of a step, counted from 0. They depend on seed and step alone."""
        epoch, position = divmod(step, self.steps_per_epoch)
        order = list(self.training)
        random.Random(f"{self.seed}|order|{epoch}").shuffle(order)
        return order[position * self.per_step : (position + 1) * self.per_step]

    @property
    def steps_per_epoch(self) -> int:
        return ceil(len(self.training) / self.per_step)

    def total_steps(self, spec: TrainerSpec) -> int:
        """Return the maximum number of steps. `spec.tokens` may end the run earlier."""
        if spec.steps is None and spec.tokens is not None:
            return spec.tokens  # a step generates one at least
        return spec.steps or spec.epochs * self.steps_per_epoch


def choose_tasks(recipe: Recipe, spec: TrainerSpec) -> TaskOrder:
    """Return the training tasks and the held-out tasks, chosen from the recipe's suite.

    Raises:
        RecipeError: a problem is both trained on and held out, or there are too many episodes.
        TaskError: a selection is empty.
        RecordError, TrainingError: `trainer.learn_from` contains nothing to learn from.
    """
    assert recipe.task is not None, "check_recipe has passed"
    suite = open_suite(recipe.task)
    training = suite.select(training_selection(recipe.task, spec))
    held_out: Sequence[Problem] = ()
    if spec.evaluation is not None:
        held_out = suite.select(spec.evaluation.tasks)
        shared = {p.address for p in training} & {p.address for p in held_out}
        if shared:
            raise RecipeError(
                f"both trained on and held out: {counted(len(shared), 'task')}, e.g. {min(shared)};"
                " set trainer.tasks and trainer.evaluation.tasks to different rows"
            )
    _check_size(recipe, spec, len(training), len(held_out))
    recorded: Recorded = {}
    if spec.learn_from is not None:
        recorded = kept_episodes(recipe, spec, {problem.address for problem in training})
        training = [problem for problem in training if problem.address in recorded]
    return TaskOrder(
        tuple(training), tuple(held_out), spec.tasks_per_step, recipe.seed, suite.spec, recorded
    )


def training_selection(task: TaskSpec, spec: TrainerSpec | None) -> str:
    """Return the tasks to train on: those of the trainer, the split `train`, or "" for all."""
    if spec is not None and spec.tasks is not None:
        return spec.tasks
    return TRAIN_SPLIT if TRAIN_SPLIT in task.splits else ""


def _check_size(recipe: Recipe, spec: TrainerSpec, n_training: int, n_held_out: int) -> None:
    group = Shape(spec.turn_structure, spec.group_size, max_turns(recipe, spec))
    check_episodes(
        min(spec.tasks_per_step, n_training) * group.episodes,
        "trainer.tasks_per_step and group_size"
        + (", and team.turns of a tree" if group.structure == "tree" else ""),
    )
    if spec.evaluation is not None:
        check_episodes(
            n_held_out * spec.evaluation.samples, "trainer.evaluation.tasks and evaluation.samples"
        )


def read_recorded_episodes(path: Path) -> list[Episode]:
    """Return the episodes of a run's folder or an `episodes.jsonl`, in the order of the file.

    Raises:
        RecordError: there is no such file, or an episode in it cannot be read.
    """
    file = episodes_file(path)
    if not file.is_file():
        raise RecordError(
            f"trainer.learn_from: {path} is neither a run's folder nor a file of episodes; use one"
            f" that has {EPISODES}"
        )
    episodes, complaints = read_episode_lines(file, Episode)
    if complaints:
        raise RecordError(f"trainer.learn_from: {complaints[0]}; correct or remove that line")
    return list(unique_items(episodes, episode_key))


def kept_episodes(recipe: Recipe, spec: TrainerSpec, tasks: Collection[str]) -> Recorded:
    """Return the episodes of `trainer.learn_from` to learn from, by task, limited to `tasks`.

    Raises:
        RecordError: the episodes cannot be read, or none remains.
        RecipeError: a trained agent has no response in them.
        TrainingError: the reward of the episodes does not define `solved`.
    """
    assert spec.learn_from is not None, "the trainer has episodes"
    algorithm = algorithm_for(spec.algorithm)
    assert isinstance(algorithm, Sft), "the recipe was checked"
    recorded = read_recorded_episodes(Path(spec.learn_from))
    usable = [episode for episode in complete_episodes(recorded) if episode.task in tasks]
    kept = group_by(filter(algorithm.keeps, usable), attrgetter("task"))
    if not kept:
        raise RecordError(
            "trainer.learn_from: nothing is left to learn from: of"
            f" {counted(len(recorded), 'episode')} in {spec.learn_from}, {len(usable)} are complete"
            " and of the training tasks, and none of these is solved or above the bound of"
            " trainer.algorithm; use other episodes, set trainer.tasks to theirs, or set the"
            " algorithm's option above"
        )
    _check_agents(recipe, kept)
    return {task: tuple(episodes) for task, episodes in kept.items()}


def _check_agents(recipe: Recipe, kept: Mapping[str, Sequence[Episode]]) -> None:
    agents = {d.agent for episodes in kept.values() for e in episodes for d in e.decisions()}
    for name in recipe.team.trained:
        if name not in agents:
            raise RecipeError(
                f"trainer.learn_from has no response of agent '{name}' (it has: "
                f"{', '.join(sorted(agents))}); give the agent that name, or set"
                f" agents.{name}.trainable=false"
            )


def phases(recipe: Recipe, spec: TrainerSpec) -> list[tuple[int, Recipe]]:
    """Return each phase's first step, from 0, and recipe. The last has the team's own turns."""
    recipes, first = [], 0
    for planned in spec.curriculum:
        changes: dict[str, object] = {"turns": planned.turns}
        if planned.feedback is not None:
            changes["feedback"] = planned.feedback
        team = recipe.team.model_copy(update=changes)
        recipes.append((first, recipe.model_copy(update={"team": team})))
        first += planned.steps
    return [*recipes, (first, recipe)]


def max_turns(recipe: Recipe, spec: TrainerSpec) -> int:
    """Return the turns of the phase that has the most."""
    return max(phase.team.turns for _, phase in phases(recipe, spec))
