"""Compares recipes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from collab.errors import RecipeError
from collab.recipe.documents import parse_yaml
from collab.recipe.load import read_recipe
from collab.recipe.overrides import flatten
from collab.recipe.packing import Packing
from collab.recipe.recipe import Recipe
from collab.recipe.reward import RewardSpec
from collab.runs.layout import RECIPE, TRAINING


def changes_since(before: Path, now: Recipe) -> Iterator[str]:
    """Yield the settings and files of a recipe that differ from the recipe `before` of a run.

    Raises:
        RecipeError: the earlier recipe cannot be read.
    """
    run, was = before.parent, read_recipe(str(before), is_run=True)[0]
    with TemporaryDirectory() as name:
        fresh = Path(name)
        old, new = flatten(Packing(run).pack(was)), flatten(Packing(fresh, as_read=False).pack(now))
        for key in dict.fromkeys((*old, *new)):
            if old.get(key) != new.get(key):
                yield f"{key} was {old.get(key)!r:.80} and is {new.get(key)!r:.80} now"
        for path in filter(Path.is_file, fresh.rglob("*")):
            file = path.relative_to(fresh)
            if not (run / file).is_file() or (run / file).read_bytes() != path.read_bytes():
                yield f"{file} has changed"


def reward_in(folder: Path) -> RewardSpec | None:
    """Return the reward in the recipe of a run's folder, or None if it cannot be read."""
    files = [file for name in (TRAINING, RECIPE) if (file := folder / name).is_file()]
    try:
        data = parse_yaml(files[0].read_text(encoding="utf-8"), str(files[0]))
        return RewardSpec.model_validate(data["task"]["reward"])
    except (OSError, ValueError, LookupError, TypeError, RecipeError):
        return None
