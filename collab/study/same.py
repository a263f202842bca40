"""Whether a cell that was begun is still what the study says: settings, functions and rows."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from collab.errors import RecordError
from collab.recipe import Recipe, read_recipe
from collab.recipe.packing import Packing
from collab.runs.layout import TRAINING
from collab.study.cells import Cell
from collab.tasks import pinned
from collab.trainers.training.changes import flat


def check_same_cell(cell: Cell, run: Path) -> None:
    """Refuse to go on where what the study names was changed since the run in `run` began.

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
    for found in (*settings, *(f"{file} has other content now" for file in others)):
        raise RecordError(
            f"{run} was begun with another recipe: {found}; change it back, or give another folder"
            " with --out"
        )


def _pinned(recipe: Recipe) -> Recipe:
    """With the commit of a dataset of the hub, as a run's own recipe names it."""
    if recipe.task is None:
        return recipe
    task = recipe.task.model_copy(update={"source": pinned(recipe.task.source)})
    return recipe.model_copy(update={"task": task})


def _equal(one: Path, other: Path) -> bool:
    return one.is_file() and one.read_bytes() == other.read_bytes()
