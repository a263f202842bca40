"""Reads the YAML files of recipes, and notes which of them are third-party."""

from __future__ import annotations

import os
from hashlib import blake2b
from pathlib import Path
from typing import Any

from collab.recipe import documents, library
from collab.recipe.names import NameKind, map_names
from collab.runs.layout import REFERENCED_FILES
from collab.trust.blocking import is_own, mark_foreign


class Files:
    """Reads YAML files and remembers which of them are third-party."""

    def __init__(self) -> None:
        self.trusted: list[Path] = []
        """Files of the current project and of the library."""
        self.foreign: dict[Path, str] = {}
        """Third-party files, each with a digest of its content."""
        self.project: Path | None = None
        """The folder in which names are looked up first."""
        self.recipe_file: Path | None = None
        """The file of the recipe, if it has one."""

    def search_from(self, path: Path) -> None:
        """Look names up in the project of this file first, if the file exists."""
        self.recipe_file = path if path.is_file() else None
        self.project = library.project_of(path) if path.is_file() else None

    def read(self, path: Path, *, may_be_own: bool = True) -> dict[str, Any]:
        """Return the mapping in a file. Names relative to the file become whole paths.

        Args:
            may_be_own: False for a file that counts as foreign wherever it is: a recipe in a run's
                folder.

        Raises:
            RecipeError: see `documents.read_mapping`.
        """
        text = documents.read_text(path)
        data = documents.parse_mapping(text, str(path))
        real = path.resolve()
        if library.is_shipped(real) or (may_be_own and is_own(path)):
            self.trusted.append(real)
        else:
            self.foreign[real] = blake2b(text.encode(), digest_size=16).hexdigest()
            mark_foreign(real.parent)
        return _anchor_names(data, path.parent, library.project_of(path))

    def holds(self, path: Path) -> bool:
        """Return True if a file is in the folder of a file that was read, or in the shipped
        library.
        """
        folders = [file.parent for file in (*self.trusted, *self.foreign)]
        real = Path(os.path.realpath(path))  # `resolve` refuses links in a circle
        return library.is_shipped(real) or any(real.is_relative_to(f) for f in folders)


def _anchor_names(data: dict[str, Any], folder: Path, project: Path) -> dict[str, Any]:
    """Return a recipe's data with whole paths for the names of files in `folder`, where the recipe
    was read.

    Functions' files may also be in `project`, the folder of the project. All other names stay
    relative to the current folder.
    """

    def change(kind: NameKind, key: str, text: str) -> str:  # noqa: ARG001
        if kind == "module function":
            return text
        if kind == "file function":
            file, _, function = text.rpartition(":")
            places = (place / file for place in (folder, project))
            file_there = next((place for place in places if place.is_file()), None)
            return f"{display_path(file_there)}:{function}" if file_there else text
        path = folder / text
        if kind == "data":
            data_file = path if path.exists() or not Path(text).exists() else Path(text)
            return os.path.realpath(data_file)
        is_there = any((path / mark).is_file() for mark in ("", *REFERENCED_FILES))
        return str(path.resolve()) if is_there else text

    result: dict[str, Any] = map_names(data, change)
    return result


def display_path(path: Path) -> str:
    """Format a file's path for reading: relative if it is below the current folder."""
    real, here = path.resolve(), Path.cwd().resolve()
    return str(real.relative_to(here)) if real.is_relative_to(here) else str(real)
