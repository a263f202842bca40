"""YAML and JSON documents, read strictly: errors carry the line and column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from collab.errors import RecipeError


class _StrictLoader(yaml.SafeLoader):
    """Refuses a key that stands twice in one mapping."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, str) and key in keys:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key '{key}' stands twice", key_node.start_mark
                )
            if isinstance(key, str):
                keys.add(key)
        return super().construct_mapping(node, deep)


def read_mapping(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file.

    Raises:
        RecipeError: the file cannot be read, does not parse (with line and column), or is not
            a mapping.
    """
    value = parse_yaml(read_text(path), str(path))
    if not isinstance(value, dict):
        raise RecipeError(f"{path}: expected a mapping, got {type(value).__name__}")
    return value


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise RecipeError(f"{path}: cannot be read: {reason}") from error


def parse_yaml(text: str, place: str) -> Any:
    try:
        return yaml.load(text, Loader=_StrictLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise RecipeError(f"{place}{where}: {error.problem or error.context}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise RecipeError(f"{place}: {error}") from error
