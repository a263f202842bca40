"""The settings in which two recorded runs differ, by their whole keys."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

from collab.errors import CollabError
from collab.recipe.documents import read_mapping
from collab.runs.about import read_about
from collab.runs.layout import DATA, FUNCTIONS, RECIPE, TRAINING

_FOR_PEOPLE = "description"
"""Keys that change nothing."""
_MANY = 200
"""Characters from which a value is told by its beginning."""


def differing(first: Path, second: Path) -> list[tuple[str, str | None, str | None]]:
    """Each key that has not the same value in both folders, and both values as text."""
    one, other = (dict(_settings(folder)) for folder in (first, second))
    return [
        (key, one.get(key), other.get(key))
        for key in dict.fromkeys((*one, *other))
        if one.get(key) != other.get(key)
    ]


def _settings(folder: Path) -> Iterator[tuple[str, str]]:
    """Of the recipe, as it was run or trained; of what lies beside it; of the versions."""
    file = next((f for n in (TRAINING, RECIPE) if (f := folder / n).is_file()), None)
    if file is not None:
        for key, value in _flat(read_mapping(file), ""):
            if not key.endswith(_FOR_PEOPLE):
                yield key, _text(value)
    for place in (FUNCTIONS, DATA):
        for path in sorted((folder / place).rglob("*")):
            if path.is_file():
                digest = blake2b(path.read_bytes(), digest_size=6).hexdigest()
                yield path.relative_to(folder).as_posix(), f"contents {digest}"
    try:
        versions = read_about(folder).get("versions", {})
    except CollabError:
        return
    yield from ((f"versions.{name}", version) for name, version in versions.items())


def _flat(value: Any, above: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _flat(item, f"{above}.{key}" if above else str(key))
    else:
        yield above, value


def _text(value: Any) -> str:
    text = str(value)
    if len(text) <= _MANY:
        return text
    digest = blake2b(text.encode("utf-8", "replace"), digest_size=3).hexdigest()
    return f"{text[:_MANY]}... ({len(text)} characters, {digest})"
