"""How many of the problems that a team is evaluated on it was trained on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from collab.errors import CollabError
from collab.recipe import Recipe, read_recipe
from collab.recipe.model import local_weights
from collab.records import Problem
from collab.runs.layout import TRAINING


def overlap_notes(recipe: Recipe, problems: Sequence[Problem]) -> Iterator[str]:
    """A sentence for each training run whose adapters or models the team uses.

    Problems are the same when their fields are, whatever the suite is called.
    """
    for run in _training_runs(recipe):
        try:
            trained = _trained_on(run)
        except CollabError as error:
            yield f"which problems {run.name} was trained on is not known: {error}"
            continue
        seen = sum(_content(problem) in trained for problem in problems)
        if seen:
            yield (
                f"{seen} of {len(problems)} problems are in the training split of {run.name}: what"
                " it has learnt by heart counts too"
            )


def _training_runs(recipe: Recipe) -> list[Path]:
    """The folders of the training runs that the team's adapters and models lie in."""
    weights = [
        Path(path).resolve()
        for name, agent in recipe.team.agents.items()
        if (model := local_weights(recipe.model_of(name)))
        for path in (agent.adapter, model.name)
        if path and Path(path).is_dir()
    ]
    above = [folder for path in weights for folder in list(path.parents)[:2]]
    return list(dict.fromkeys(folder for folder in above if (folder / TRAINING).is_file()))


def _trained_on(run: Path) -> list[Any]:
    from collab.trainers.training.data import choose_tasks

    recipe, _ = read_recipe(str(run / TRAINING))
    assert recipe.trainer is not None, "a training run's recipe names its trainer"
    return [_content(problem) for problem in choose_tasks(recipe, recipe.trainer).training]


def _content(problem: Problem) -> dict[str, Any]:
    return {**problem.public, **problem.hidden}
