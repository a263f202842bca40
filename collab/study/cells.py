"""The cells of a study: a training run for each trainer, task and seed."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from collab.recipe import Recipe, load_recipe
from collab.study.spec import StudySpec, TrainerEntry
from collab.trust import Consent


@dataclass(frozen=True)
class Cell:
    """One training run."""

    task: str
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
        return re.sub(r"[^\w.-]+", "-", f"{self.task}-{self.trainer}-seed-{self.seed}")

    def load(self, trust: Consent) -> Recipe:
        """Its recipe, as the process that trains it reads it; raises RecipeError, Untrusted."""
        return load_recipe(
            self.recipe,
            task=self.suite,
            settings=self.settings,
            trust=trust,
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


def cells_of(spec: StudySpec) -> list[Cell]:
    """Seed by seed, so that all trainers have come equally far when a study is interrupted."""
    return [
        _cell(spec, suite, entry, seed)
        for seed in spec.seeds
        for suite in spec.tasks or (None,)
        for entry in spec.trainers
    ]


def marks_of(spec: StudySpec) -> list[int]:
    """The tokens at which cells are compared: 0, and equal steps up to the budget."""
    return [round(n * spec.tokens / spec.evaluations) for n in range(spec.evaluations + 1)]


def _cell(spec: StudySpec, suite: str | None, entry: TrainerEntry, seed: int) -> Cell:
    every = ceil(spec.tokens / spec.evaluations)
    budget = {
        "trainer.tokens": spec.tokens,
        "trainer.steps": None,
        "trainer.evaluation": {"every_tokens": every, "greedy": False},
    }
    settings = {**budget, **spec.settings, **entry.settings}
    return Cell(
        task=Path(suite or spec.recipe).stem,
        trainer=entry.name,
        seed=seed,
        recipe=spec.recipe,
        base=entry.trainer,
        model=spec.model,
        suite=suite,
        settings=tuple(f"{key}={json.dumps(value)}" for key, value in settings.items()),
    )
