"""Recipes in YAML, with parts in Python."""

from typing import Any

import yaml

from collab.recipe import Recipe


def recipe_from(text: str, **parts: Any) -> Recipe:
    """Return the recipe of a YAML text; a mapping in `parts` is added to its section."""
    data = yaml.safe_load(text)
    for section, part in parts.items():
        data[section] = {**data.get(section, {}), **part} if isinstance(part, dict) else part
    return Recipe.model_validate(data)
