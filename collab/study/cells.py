"""The cells of a study: a training run for each trainer, suite and seed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from collab.errors import RecipeError
from collab.naming import as_name
from collab.recipe import Recipe, check_functions, read_recipe
from collab.recipe.files import Files
from collab.study.spec import StudySpec, TrainerEntry, read_study
from collab.trust import Consent, Question, joined, remember, settle


@dataclass(frozen=True)
class Cell:
    """One training run."""

    task: str
    """Its suite, or its recipe where that brings the suite."""
    trainer: str
    seed: int
    recipe: str
    base: str
    """The trainer whose settings are changed by `settings`."""
    model: str | None
    suite: str | None
    settings: tuple[str, ...]

    @property
    def name(self) -> str:
        """What its folder is called."""
        return f"{as_name(f'{self.task}-{self.trainer}')}-seed-{self.seed}"

    def read(self, written_in: Files | None = None) -> tuple[Recipe, Question]:
        """Its recipe, and what is to be asked first; raises RecipeError.

        Args:
            written_in: the study's file, which what it says is asked about as a recipe is; without,
                its process is meant, which takes all that it is given for the user's own words.
        """
        return read_recipe(
            self.recipe,
            task=self.suite,
            settings=self.settings,
            written_in=written_in,
            trainer=self.base,
            model=self.model,
            seed=self.seed,
        )

    def arguments(self) -> list[str]:
        """Of `collab train`, but for the folder."""
        found = [self.recipe, "--trainer", self.base, "--seed", str(self.seed)]
        found += ["--task", self.suite] if self.suite else []
        found += ["--model", self.model] if self.model else []
        return [*found, *(part for setting in self.settings for part in ("--set", setting))]


def load_study(path: Path, trust: Consent = False) -> StudySpec:
    """The study in a YAML file, with a yes to all that its cells would do.

    Raises:
        RecipeError: the study, or the recipe of a cell, cannot be read, or is wrong.
        Untrusted: it would run something from elsewhere, and there is no yes.
    """
    spec, files = read_study(path)
    cells = cells_of(spec)
    recipes, questions = zip(*(cell.read(files) for cell in cells), strict=True)
    for recipe in recipes:
        check_functions(recipe)
    settle(joined(str(path), questions), trust)
    for cell in cells:
        remember(cell.read()[1])
    return spec


def cells_of(spec: StudySpec) -> list[Cell]:
    """Seed by seed, so that all trainers have come equally far when a study is interrupted.

    Raises:
        RecipeError: two cells would be one folder.
    """
    cells = [
        _cell(spec, task, suite, entry, seed)
        for seed in spec.seeds
        for task, suite in _suites(spec)
        for entry in spec.trainers
    ]
    by_name: dict[str, Cell] = {}
    for cell in cells:
        other = by_name.setdefault(cell.name, cell)
        if other is not cell:
            raise RecipeError(
                f"{other.trainer!r} on {other.task!r} and {cell.trainer!r} on {cell.task!r} would"
                f" both be trained in the folder {cell.name}; give one trainer another name, or"
                " one suite"
            )
    return cells


def _suites(spec: StudySpec) -> list[tuple[str, str | None]]:
    """What each suite is called, and itself: by its whole address where another ends alike."""
    if not spec.tasks:
        return [(Path(spec.recipe).stem, None)]
    stems = [Path(suite).stem for suite in spec.tasks]
    return [
        (stem if stems.count(stem) == 1 else suite, suite)
        for stem, suite in zip(stems, spec.tasks, strict=True)
    ]


def marks_of(spec: StudySpec) -> list[int]:
    """The tokens at which cells are compared: 0, and equal steps up to the budget."""
    return [round(n * spec.tokens / spec.evaluations) for n in range(spec.evaluations + 1)]


def _cell(spec: StudySpec, task: str, suite: str | None, entry: TrainerEntry, seed: int) -> Cell:
    every = ceil(spec.tokens / spec.evaluations)
    default = {"trainer.evaluation.greedy": False}
    # Last, so that a setting of the whole evaluation leaves its marks where they are.
    budget = {
        "trainer.tokens": spec.tokens,
        "trainer.steps": None,
        "trainer.evaluation.every_tokens": every,
    }
    settings = {**default, **spec.settings, **entry.settings, **budget}
    return Cell(
        task=task,
        trainer=entry.name,
        seed=seed,
        recipe=spec.recipe,
        base=entry.trainer,
        model=spec.model,
        suite=suite,
        settings=tuple(f"{key}={json.dumps(value)}" for key, value in settings.items()),
    )
