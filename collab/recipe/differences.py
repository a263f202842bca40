"""Compares recipes and folders of runs: their settings, and the contents of their files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2b, file_digest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import ValidationError

from collab.recipe.documents import read_mapping
from collab.recipe.load import read_recipe
from collab.recipe.overrides import flatten
from collab.recipe.packing import RecipePacker
from collab.recipe.recipe import SECTIONS, Recipe
from collab.recipe.reward import RewardSpec
from collab.runs.layout import DATA, FUNCTIONS, RECIPE, TRAINING
from collab.runs.reading import open_file


def find_differences(*settings: Mapping[str, Any]) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield each key whose values differ, with its value in each of `settings`, None if it has no
    such key.
    """
    for key in dict.fromkeys(key for each in settings for key in each):
        values = tuple(each.get(key) for each in settings)
        if any(value != values[0] for value in values):
            yield key, values


def changes_since(before: Path, now: Recipe) -> Iterator[str]:
    """Yield the settings and files of a recipe that differ from the recipe `before` of a run.

    Raises:
        RecipeError: the earlier recipe cannot be read.
    """
    run, was = before.parent, read_recipe(str(before))[0]
    with TemporaryDirectory() as name:
        fresh = Path(name)
        old, new = (
            flatten_recipe(RecipePacker(run).pack(was)),
            flatten_recipe(RecipePacker(fresh, as_read=False).pack(now)),
        )
        for key, (earlier, later) in find_differences(old, new):
            yield f"{key} was {earlier!r:.80} and is {later!r:.80} now"
        for path in filter(Path.is_file, fresh.rglob("*")):
            file = path.relative_to(fresh)
            if not (run / file).is_file() or (run / file).read_bytes() != path.read_bytes():
                yield f"{file} has changed"


def recipe_in(folder: Path) -> dict[str, Any]:
    """Return the data of the recipe in a run's folder, or {} if there is none.

    For a training run, it is the recipe as it was trained.

    Raises:
        RecipeError: the file cannot be read.
    """
    files = (folder / name for name in (TRAINING, RECIPE))
    return next((read_mapping(file) for file in files if file.is_file()), {})


def outcome_settings(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings in a recipe's data, flat, with current names, without descriptions."""
    names = {
        f"{section}.{former}": f"{section}.{now}"
        for section, spec in SECTIONS.items()
        for former, now in spec.renamed.items()
    }
    settings = {names.get(key, key): value for key, value in flatten_recipe(recipe).items()}
    return {key: settings[key] for key in settings if key.rpartition(".")[2] != "description"}


def flatten_recipe(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings in a recipe's data, flat, with the order in which its agents act."""
    team = recipe.get("team")
    agents = team.get("agents") if isinstance(team, Mapping) else None
    order = {"team.agents": ", ".join(map(str, agents))} if isinstance(agents, Mapping) else {}
    return order | flatten(recipe)


def file_digests(folder: Path) -> dict[str, str]:
    """Return a digest of each of a run's functions and rows, by file."""
    places = (*sorted(folder.glob(f"{FUNCTIONS}*")), folder / DATA)
    files = (path for place in places for path in sorted(place.rglob("*")) if path.is_file())
    return {file.relative_to(folder).as_posix(): _digest_file(file, folder) for file in files}


def _digest_file(file: Path, folder: Path) -> str:
    if not file.resolve().is_relative_to(folder.resolve()):
        return "a link out of the folder, not read"
    try:
        with open_file(file) as stream:
            digest = file_digest(stream, lambda: blake2b(digest_size=6)).hexdigest()
    except OSError as error:
        return f"unreadable: {error.strerror}"
    return f"contents {digest}"


def reward_in(recipe: Mapping[str, Any]) -> RewardSpec | None:
    """Return the reward in a recipe's data, or None if it has no readable one."""
    try:
        return RewardSpec.model_validate(recipe["task"]["reward"])
    except (LookupError, TypeError, ValidationError):
        return None
