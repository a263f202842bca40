"""Writes recipes as YAML."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from collab.errors import CollabError, RecipeError
from collab.recipe.approval import about_adapters
from collab.recipe.documents import MAX_YAML_CHARACTERS
from collab.recipe.load import read_recipe
from collab.recipe.names import functions_passed_in_python
from collab.recipe.packing import RecipePacker
from collab.recipe.recipe import Recipe
from collab.runs.atomic import write_atomically
from collab.runs.layout import RECIPE
from collab.trust import remember


def dump_recipe(recipe: Recipe) -> str:
    """Return the recipe as YAML that loads to the same recipe."""
    return _as_yaml(recipe.model_dump(mode="json", exclude_none=True))


def write_recipe(path: Path, recipe: Recipe, packing: RecipePacker) -> None:
    """Write a trusted recipe with all the files it names, so that its folder can be moved, and
    approve what it names there.

    Raises:
        RecipeError: the recipe is too long to be read again.
        RecordError: the recipe cannot be written.
        OSError: a file that it names cannot be copied.
    """
    text = _preface(recipe) + _as_yaml(packing.pack(recipe))
    if len(text) > MAX_YAML_CHARACTERS:
        raise RecipeError(
            f"with all settings, the recipe has {len(text):,} characters of YAML, more than"
            f" {MAX_YAML_CHARACTERS:,}; shorten its texts"
        )
    write_atomically(path, text)
    _approve(path)


def _approve(path: Path) -> None:
    """Approve what a written recipe names, because the recipe that it was written from is trusted.

    A recipe that cannot be read again is asked about when it is used.
    """
    # A file in a new run's folder would still count as the user's own, unlike the folder.
    name = path.parent if path.name == RECIPE else path
    with suppress(CollabError):
        written, question = read_recipe(str(name))
        remember(question)
        remember(about_adapters(written, question, path.parent))


def _preface(recipe: Recipe) -> str:
    """Return a comment that names the functions passed in Python, or "" if there are none."""
    names = functions_passed_in_python(recipe)
    if not names:
        return ""
    return (
        "# These functions were passed in Python. This run can be read, shown and reported; it\n"
        "# runs again only where they are passed again:\n"
        + "".join(f"#   {name}\n" for name in names)
    )


def _as_yaml(data: dict[str, Any]) -> str:
    text: str = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return text


class _Dumper(yaml.SafeDumper):
    """Dumps multi-line strings, such as prompts, unescaped."""


def _write_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text.strip("\n") else None
    style = '"' if "\x85" in text else style  # YAML takes it for a line end
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _write_text)
