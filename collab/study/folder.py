"""A study's folder: one training run's folder per cell, and the numbers; always readable.

study.json             `collab.study.results.StudyResults`: cells, numbers, intervals
study.yaml             the study as it was read
CELL/                  an ordinary training run, with what its process printed in `log.txt`
report.html            curves, comparisons and every run
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from pydantic import ValidationError

from collab.errors import CollabError, RecordError
from collab.recipe import Recipe, read_recipe
from collab.recipe.documents import parse_json, read_mapping
from collab.recipe.packing import Packing
from collab.runs.about import mark_interrupted, read_about
from collab.runs.atomic import Lock, write_atomically, writing
from collab.runs.layout import RUN, STUDY, STUDY_RECIPE, TRAINING, TRAINING_LOG
from collab.stats import mean
from collab.study.results import CellResult, Point, Status, StudyResults
from collab.study.spec import Cell, StudySpec, cells_of
from collab.tasks import pinned
from collab.trainers.training.events import TaskResult, largest_return, read_evaluations
from collab.trainers.training.folder import flat

MAY_GROW = ("description", "seeds", "level")
"""Keys of a study that may change when it is continued; more seeds mean more cells."""
ENDING_SECONDS = 10.0
"""Time for a cell's process to end after its study was killed; training itself takes one second."""


class StudyFolder:
    """The folder of a study, open for writing by one process at a time."""

    def __init__(self, path: Path, spec: StudySpec, *, resume: bool) -> None:
        """Open the folder, or make it.

        Raises:
            RecordError: it holds a study and `resume` is not given, or another study, or
                something else, or it is being written.
        """
        self.path = path
        if not resume and path.exists() and any(path.iterdir()):
            remedy = "continue with --resume, or " if (path / STUDY).exists() else ""
            raise RecordError(f"{path} is not empty; {remedy}give another folder with --out")
        self._check_same(spec)
        self._lock = Lock(path)
        with writing(path):
            data = spec.model_dump(mode="json")
            text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
            write_atomically(path / STUDY_RECIPE, text)
        self._measure = spec.measure
        self._failures = self._read_failures()

    def cell(self, cell: Cell) -> Path:
        """The folder of a cell's training run."""
        return self.path / cell.name

    def log(self, cell: Cell) -> Path:
        """The log of a cell's process."""
        return self.cell(cell) / TRAINING_LOG

    def status(self, cell: Cell) -> Status:
        """The status of a cell."""
        if cell.name in self._failures:
            return "failed"
        if not self.is_begun(cell):
            return "waiting"
        try:
            status = read_about(self.cell(cell)).get("status")
        except CollabError:
            return "interrupted"
        return status if status in ("done", "failed") else "interrupted"

    def is_begun(self, cell: Cell) -> bool:
        """True if there is a run to continue."""
        return all((self.cell(cell) / name).is_file() for name in (TRAINING, RUN))

    def prepare(self, cell: Cell) -> bool:
        """Prepare a cell's folder; returns True if there is a run to continue.

        Waits for the process of a study that was killed, which still writes down how far it came.

        Raises:
            RecordError: another process trains in the folder, and does not end.
        """
        self._failures.pop(cell.name, None)
        Lock(self.cell(cell), seconds=ENDING_SECONDS).release()
        if self.is_begun(cell):
            return True
        if self.cell(cell).exists():
            shutil.rmtree(self.cell(cell))  # killed before anything was known of it
        self.cell(cell).mkdir(parents=True)
        return False

    def failed(self, cell: Cell, message: str) -> None:
        """Note why a cell failed."""
        self._failures[cell.name] = message

    def interrupted(self, cell: Cell) -> None:
        """Write `interrupted` into a cell's `run.json`."""
        mark_interrupted(self.cell(cell))

    def result(self, cell: Cell, seconds: float) -> CellResult:
        """The result of a cell so far."""
        points, maximum = self._points(cell)
        status = self.status(cell)
        return CellResult(
            name=cell.name,
            task=cell.task,
            trainer=cell.trainer,
            seed=cell.seed,
            status=status,
            message=self._failures.get(cell.name),
            seconds=round(seconds, 3),
            points=tuple(points),
            maximum=maximum,
        )

    def save(self, results: StudyResults) -> None:
        """Write all results; raises RecordError if the disk is full."""
        with writing(self.path / STUDY, "free some space"):
            write_atomically(self.path / STUDY, results.model_dump_json(indent=2))

    def close(self) -> None:
        self._lock.release()

    def _points(self, cell: Cell) -> tuple[list[Point], float | None]:
        evaluations = read_evaluations(self.cell(cell))
        points = [
            Point(tokens=e.tokens or 0, value=mean([self._value(r) for r in e.sampled.values()]))
            for e in evaluations
        ]
        if self._measure == "solved":
            return points, 1.0 if evaluations else None
        most = [m for e in evaluations if (m := largest_return(e.sampled)) is not None]
        return points, max(most, default=None)

    def _value(self, result: TaskResult) -> float:
        if self._measure == "return":
            return result.joint_return
        if result.solved is None:
            raise RecordError(
                "this study measures whether tasks are solved, but no part of the reward says so;"
                " set `solves: true` for a part, or measure: return"
            )
        return result.solved

    def _check_same(self, spec: StudySpec) -> None:
        """Refuse to continue a study with other settings."""
        if not (self.path / STUDY_RECIPE).is_file():
            return
        before = read_mapping(self.path / STUDY_RECIPE)
        now = spec.model_dump(mode="json")
        for key in now:
            if key not in MAY_GROW and before.get(key) != now[key]:
                raise RecordError(
                    f"{key} is {before.get(key)!r} in the study {self.path}, and {now[key]!r}"
                    " would change it; change the value back, or give another folder with --out"
                )
        for cell in filter(self.is_begun, cells_of(spec)):
            check_same_cell(cell, self.cell(cell))

    def _read_failures(self) -> dict[str, str]:
        try:
            data: Mapping[str, Any] = parse_json((self.path / STUDY).read_bytes())
            cells = StudyResults.model_validate(data).cells
        except (OSError, ValueError, ValidationError):
            return {}
        return {c.name: c.message or "" for c in cells if c.status == "failed"}


def check_same_cell(cell: Cell, run: Path) -> None:
    """Refuse to continue if a file or recipe of the study has changed since `run` began.

    Cells that are trained now would not be comparable with those that were trained before.

    Raises:
        RecipeError: one of the recipes cannot be read.
        RecordError: a setting differs, or the content of a file.
    """
    was = flat(Packing(run).pack(read_recipe(str(run / TRAINING), is_run=True)[0]))
    with TemporaryDirectory() as name:
        anew = Path(name)
        now = flat(Packing(anew).pack(_pinned(cell.read()[0])))
        files = [path.relative_to(anew) for path in anew.rglob("*") if path.is_file()]
        others = [file for file in files if not _equal(run / file, anew / file)]
    settings = [
        f"{key} was {was.get(key)!r} and is {now.get(key)!r} now"
        for key in dict.fromkeys((*was, *now))
        if was.get(key) != now.get(key)
    ]
    for difference in (*settings, *(f"{file} has changed" for file in others)):
        raise RecordError(
            f"{run} was started with another recipe: {difference}; change it back, or give another"
            " folder with --out"
        )


def _pinned(recipe: Recipe) -> Recipe:
    """The recipe with the commit of its hub dataset, as in a run's recipe."""
    if recipe.task is None:
        return recipe
    task = recipe.task.model_copy(update={"source": pinned(recipe.task.source)})
    return recipe.model_copy(update={"task": task})


def _equal(one: Path, other: Path) -> bool:
    return one.is_file() and one.read_bytes() == other.read_bytes()
