"""A study's file: trainers, suites, seeds and tokens, and the cells, one training run for each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, PrivateAttr, field_validator

from collab.errors import RecipeError
from collab.naming import as_name
from collab.recipe import Recipe, check_functions, library, read_recipe
from collab.recipe.base import Spec
from collab.recipe.files import Files
from collab.recipe.in_python import Overrides
from collab.recipe.load import validate
from collab.tasks import split_address
from collab.trust import Consent, Question, approve, join_questions, remember

RESERVED_SETTINGS = {
    "seed": "seeds",
    "trainer": "trainers, or single keys such as trainer.group_size,",
    "trainer.tokens": "tokens",
    "trainer.steps": "tokens",
    "trainer.epochs": "tokens",
    "trainer.evaluation.every_tokens": "evaluations",
}
"""Settings that would replace a cell's seed, trainer or budget, and what to set instead."""
MAX_SEEDS = 1_000
_ALGORITHM = "trainer.algorithm"

StudyMeasure = Literal["return", "solved"]
"""Measure by which cells are compared: the mean return of held-out episodes, or the share solved,
for teams whose rewards have different maxima."""


class TrainerEntry(Spec):
    """One trainer of the study, under a name of its own."""

    name: str
    trainer: str = "magrpo"
    """A trainer's name or file."""
    settings: dict[str, Any] = {}
    """Settings by key, in the form of `--set`, e.g. `trainer.algorithm: mine.py:algorithm`, or
    `team: NAME` for another team on the same tasks."""


class StudySpec(Spec):
    """A study: trainers, suites and seeds to combine."""

    description: str = ""
    """The question that the study answers."""
    recipe: str
    """Recipe of the study: a team's name, or a team or recipe file, relative to the study's file or
    to the current folder."""
    model: str | None = None
    """Model for agents that name none. Default: the recipe's."""
    tasks: tuple[str, ...] = ()
    """Suites. Default: the recipe's own."""
    trainers: tuple[TrainerEntry, ...] = Field(min_length=1)
    """Trainers to compare: names, your own algorithms as `file.py:NAME`, or mappings with `name`,
    `trainer` and `settings`. The others are compared with the first."""
    seeds: tuple[Annotated[int, Field(ge=0, lt=2**63)], ...] = Field(
        default=(0, 1, 2), min_length=1, max_length=MAX_SEEDS
    )
    """Seeds, or their number: `3` means 0, 1 and 2."""
    tokens: int = Field(ge=1)
    """Number of tokens that each cell generates in training."""
    evaluations: int = Field(default=4, ge=1)
    """Number of held-out evaluations after the first one, evenly spaced in tokens."""
    measure: StudyMeasure = "return"
    """The value to compare: held-out `return`, or the share `solved`."""
    settings: dict[str, Any] = {}
    """Settings of all cells, by key as in `--set`, e.g. `trainer.group_size: 8`."""
    _file: Path | None = PrivateAttr(default=None)

    @field_validator("recipe")
    @classmethod
    def _check_recipe_name(cls, recipe: str) -> str:
        if recipe.startswith("-"):  # the cell's process would read it as an option
            raise ValueError(f"'{recipe}' is not a recipe; write a file's path, ./{recipe}")
        return recipe

    @field_validator("seeds", mode="before")
    @classmethod
    def _expand_seed_count(cls, value: Any) -> Any:
        is_count = isinstance(value, int) and value > 0
        return tuple(range(min(value, MAX_SEEDS + 1))) if is_count else value

    @field_validator("trainers", mode="before")
    @classmethod
    def _expand_trainer_names(cls, value: Any) -> Any:
        entries = value if isinstance(value, list | tuple) else [value]
        return [_trainer_entry(item) if isinstance(item, str) else item for item in entries]

    def _faults(self) -> Iterator[str]:
        for what, names in (
            ("trainers", [entry.name for entry in self.trainers]),
            ("tasks", list(self.tasks)),
            ("seeds", [str(seed) for seed in self.seeds]),
        ):
            again = sorted({name for name in names if names.count(name) > 1})
            if again:
                yield f"{what}: {again[0]} occurs twice; give each one once"
        if self.tasks and "task" in self.settings:
            yield "settings: task would replace every suite in tasks; leave out one of the two"
        if len({entry.trainer for entry in self.trainers}) > 1 and _ALGORITHM in self.settings:
            yield f"settings: {_ALGORITHM} would replace that of every trainer; set it in one"
        for settings in (self.settings, *(entry.settings for entry in self.trainers)):
            for key, other in RESERVED_SETTINGS.items():
                if key in settings:
                    yield f"settings: {key} belongs to the study itself; set {other} instead"


def read_study(path: Path) -> StudySpec:
    """Return the study in a YAML file, without approval.

    The names of the recipe, the suites and the trainers are looked up in the study's folder first.

    Raises:
        RecipeError: the file cannot be read, is not a study, or selects tasks from a suite.
    """
    if not path.is_file():
        raise RecipeError(
            f"{path} does not exist; specify a study's YAML file, e.g. examples/studies/game.yaml"
        )
    spec = validate(StudySpec, Files().read(path), str(path))
    _check_suites(spec, path)
    beside = path.parent / spec.recipe
    recipe = str(beside) if beside.exists() else _local_file_or_name("team", spec.recipe, path)
    trainers = [
        entry.model_copy(update={"trainer": _local_file_or_name("trainer", entry.trainer, path)})
        for entry in spec.trainers
    ]
    tasks = tuple(_local_file_or_name("task", name, path) for name in spec.tasks)
    names = {"recipe": recipe, "trainers": tuple(trainers), "tasks": tasks}
    read = spec.model_copy(update=names)
    read._file = path
    return read


def _check_suites(spec: StudySpec, path: Path) -> None:
    """Refuse tasks that select from a suite, because a study has another key for this."""
    for name in spec.tasks:
        suite, rows = split_address(name)
        if rows and not library.is_yaml(name):
            raise RecipeError(
                f"{path}: tasks: takes suites, got '{name}'; write `tasks: [{suite}]` and"
                f" `settings: {{trainer.tasks: '{rows}'}}`"
            )


def _local_file_or_name(kind: library.ComponentKind, name: str, study: Path) -> str:
    """Return the component's file if it is in the study's folder, otherwise its name."""
    file = library.project_of(study) / library.FOLDERS[kind] / f"{name}.yaml"
    return str(file) if file.is_file() else name


def _trainer_entry(name: str) -> dict[str, Any]:
    """Return a trainer by its name. `file.py:NAME` is MAGRPO's settings with that algorithm."""
    if ".py:" in name:
        function = re.sub(r"\W", "-", name.rpartition(":")[2])
        return {"name": function, "trainer": "magrpo", "settings": {_ALGORITHM: name}}
    return {"name": Path(name).stem if library.is_yaml(name) else name, "trainer": name}


@dataclass(frozen=True)
class Cell:
    """One training run: a trainer, a suite and a seed."""

    spec: StudySpec
    entry: TrainerEntry
    task: str
    """Suite of the cell, or its recipe if the recipe includes the suite."""
    suite: str | None
    seed: int

    @property
    def trainer(self) -> str:
        """Name of the trainer in the study."""
        return self.entry.name

    @property
    def name(self) -> str:
        """Name of the cell's folder."""
        return f"{as_name(f'{self.task}-{self.trainer}')}-seed-{self.seed}"

    @property
    def settings(self) -> list[str]:
        """Changes of the trainer's settings. The budget is last, so that a setting of the whole
        evaluation cannot move its marks."""
        settings = {
            "trainer.evaluation.greedy": False,
            **self.spec.settings,
            **self.entry.settings,
            "trainer.tokens": self.spec.tokens,
            "trainer.steps": None,
            "trainer.evaluation.every_tokens": ceil(self.spec.tokens / self.spec.evaluations),
        }
        return [f"{key}={_yaml_text(value)}" for key, value in settings.items()]

    def read(self) -> tuple[Recipe, Question]:
        """Return the cell's recipe, and the question that the user must answer before it runs.

        Raises:
            RecipeError: the recipe cannot be read.
        """
        keys = {"trainer": self.entry.trainer, "model": self.spec.model, "seed": self.seed}
        overrides = Overrides(
            task=self.suite, settings=self.settings, keys=keys, written_in=self.spec._file
        )
        return read_recipe(self.spec.recipe, overrides)

    def arguments(self) -> list[str]:
        """Return arguments of `collab train`, without the folder."""
        words = [self.spec.recipe, "--trainer", self.entry.trainer, "--seed", str(self.seed)]
        words += ["--task", self.suite] if self.suite else []
        words += ["--model", self.spec.model] if self.spec.model else []
        words += ["--written-in", str(self.spec._file)] if self.spec._file else []
        return [*words, *(part for setting in self.settings for part in ("--set", setting))]


def load_study(path: Path, trust: Consent = False) -> StudySpec:
    """Return the study in a YAML file, after approval of everything that its cells would do.

    Raises:
        RecipeError: the study, or the recipe of a cell, cannot be read, or is wrong.
        Untrusted: the study would run third-party code, and is not approved.
    """
    spec = read_study(path)
    recipes, questions = zip(*(cell.read() for cell in cells_of(spec)), strict=True)
    for recipe in recipes:
        check_functions(recipe)
    approve(join_questions(str(path), questions), trust)
    for question in questions:  # each cell's process asks its own
        remember(question)
    return spec


def cells_of(spec: StudySpec) -> list[Cell]:
    """Return the cells seed by seed, so an interrupted study has trained all trainers equally
    often.

    Raises:
        RecipeError: two cells would share a folder.
    """
    cells = [
        Cell(spec, entry, task, suite, seed)
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
                f" use the same folder {cell.name}; rename one trainer or one suite"
            )
    return cells


def _suites(spec: StudySpec) -> list[tuple[str, str | None]]:
    """Return each suite with its name, or with its address if two names end in the same way."""
    if not spec.tasks:
        return [(Path(spec.recipe).stem, None)]
    stems = [Path(suite).stem for suite in spec.tasks]
    return [
        (stem if stems.count(stem) == 1 else suite, suite)
        for stem, suite in zip(stems, spec.tasks, strict=True)
    ]


def marks_of(spec: StudySpec) -> list[int]:
    """Return the token counts at which cells are compared: equal steps from 0 to the budget."""
    return [round(n * spec.tokens / spec.evaluations) for n in range(spec.evaluations + 1)]


def _yaml_text(value: Any) -> str:
    """Return a value as YAML, in ASCII: YAML reads numbers of JSON, such as `1e-08`, as strings."""
    text: str = yaml.safe_dump(value, default_flow_style=True, width=10**9, sort_keys=False)
    return text.removesuffix("...\n").strip()
