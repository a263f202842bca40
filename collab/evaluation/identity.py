"""Digests of all that an episode depends on, so that a changed team is never mixed with the old."""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any

from collab.distribution import version
from collab.recipe import Recipe
from collab.runs.layout import ADAPTER_CONFIG, EPISODES
from collab.trust.sources import digest_of, sources_of

_SAY_NOTHING = {
    "": {"name", "description", "samples", "trainer"},
    "team": {"name", "description"},
    "task": {"description", "source", "splits"},
    "sandbox": {"workers", "executor", "address"},
}
"""Keys of a recipe that change no episode; a suite counts by its rows."""

_FOLDERS = (ADAPTER_CONFIG, "config.json", EPISODES)
"""Files by which a folder is known as an adapter, a model or a recorded run."""

_LARGE = 2**28
"""A file of this many bytes counts by its size and time, not by its content."""


def identity_of(recipe: Recipe, rows: Iterable[Any]) -> str:
    """The digest of a recipe, the files that it names, and its suite's rows."""
    settings = recipe.model_dump(mode="json")
    for part, keys in _SAY_NOTHING.items():
        for key in keys:
            (settings[part] if part else settings).pop(key, None)
    data = [version(), named_files(settings), list(rows)]
    return _digest(json.dumps(data, sort_keys=True, default=str).encode())


def named_files(value: Any) -> Any:
    """The settings, with digests in place of files and folders."""
    if isinstance(value, dict):
        return {key: named_files(item) for key, item in value.items()}
    if isinstance(value, list):
        return [named_files(item) for item in value]
    return _content(value) if isinstance(value, str) else value


def changed_files(one: Any, other: Any) -> list[tuple[str, str]] | None:
    """Return the files of the same name if nothing but their contents differs; else None."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        pairs = [(one[key], other[key]) for key in one]
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = [*zip(one, other, strict=True)]
    else:
        return _changed_file(one, other)
    by_pair = [changed_files(*pair) for pair in pairs]
    changed = (files for files in by_pair if files is not None)
    return None if None in by_pair else [*dict.fromkeys(chain.from_iterable(changed))]


def _changed_file(one: Any, other: Any) -> list[tuple[str, str]] | None:
    if named_files(one) == named_files(other):
        return []
    if not (isinstance(one, str) and isinstance(other, str)):
        return None
    (a, _, first), (b, _, second) = one.rpartition(":"), other.rpartition(":")
    same = (Path(a).name, first) == (Path(b).name, second)
    return [(a, b)] if same and Path(a).is_file() and Path(b).is_file() else None


def _content(text: str) -> str:
    if "\n" in text or len(text) > 1024:
        return text
    file, _, function = text.partition(".py:")
    path = Path(f"{file}.py" if function else text).expanduser()
    try:
        if path.is_file():
            return f"{digest_of(sources_of(path)) if function else _of_file(path)} {function}"
        if any((path / name).is_file() for name in _FOLDERS):
            inside = sorted(item for item in path.iterdir() if item.is_file())
            return _digest(" ".join(f"{f.name} {_of_file(f)}" for f in inside).encode())
    except (OSError, ValueError):  # no path
        return text
    return text


def _of_file(path: Path) -> str:
    about = path.stat()
    if about.st_size < _LARGE:
        return _digest(path.read_bytes())
    return f"{about.st_size} {about.st_mtime_ns}"


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()
