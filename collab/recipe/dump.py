"""Recipes in a run's folder: YAML that loads to the same recipe, wherever the folder is moved."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from collab.errors import CollabError, RecipeError
from collab.recipe.documents import parse_yaml
from collab.recipe.load import read_recipe
from collab.recipe.packing import Packing
from collab.recipe.recipe import Recipe
from collab.recipe.references import of_python_in
from collab.recipe.reward import RewardSpec
from collab.runs.atomic import write_atomically
from collab.runs.layout import RECIPE, TRAINING
from collab.trust import remember


def dump_recipe(recipe: Recipe) -> str:
    """The recipe as YAML that loads to the same recipe."""
    return _as_yaml(recipe.model_dump(mode="json", exclude_none=True))


def write_recipe(path: Path, recipe: Recipe, packing: Packing) -> None:
    """Write a recipe with all that it names, so that its folder can be moved, and trust it.

    Raises:
        OSError: a file cannot be written or copied.
    """
    write_atomically(path, _preface(recipe) + _as_yaml(packing.pack(recipe)))
    with suppress(CollabError):
        remember(read_recipe(str(path), is_run=True)[1])


def _preface(recipe: Recipe) -> str:
    """Says what the recipe cannot be run by alone."""
    names = of_python_in(recipe)
    if not names:
        return ""
    return (
        "# These functions were given in Python and are in no file. This run can be read, shown\n"
        "# and reported; it runs again only where they are given again:\n"
        + "".join(f"#   {name}\n" for name in names)
    )


def reward_in(folder: Path) -> RewardSpec | None:
    """The reward in the recipe of a run, as it is written there; None where none can be read."""
    found = [file for name in (TRAINING, RECIPE) if (file := folder / name).is_file()]
    try:
        data = parse_yaml(found[0].read_text(encoding="utf-8"), str(found[0]))
        return RewardSpec.model_validate(data["task"]["reward"])
    except (OSError, ValueError, LookupError, TypeError, RecipeError):
        return None


def _as_yaml(data: dict[str, Any]) -> str:
    text: str = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return text


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines, such as prompts, as they are."""


def _write_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text.strip("\n") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _write_text)
