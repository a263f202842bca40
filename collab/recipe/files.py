"""Reads the YAML files that make up a recipe."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import Any

from collab.recipe import documents, library
from collab.recipe.packing import anchored
from collab.trust.held import is_own


class Files:
    """Reads YAML files and remembers which of them come from elsewhere."""

    def __init__(self, first: Files | None = None) -> None:
        """Start from the files that `first` has read, if given."""
        self.own: list[Path] = [*first.own] if first else []
        """Files of the current project and of the library."""
        self.foreign: dict[Path, str] = {**first.foreign} if first else {}
        """Files from elsewhere, each with a digest of its content."""
        self.project: Path | None = None
        """The folder in which names are looked up first."""
        self.first: Path | None = None
        """The file of the recipe, if it has one."""

    def begin_at(self, path: Path) -> None:
        """Look names up in the project of this file first, if the file exists."""
        self.first = path if path.is_file() else None
        self.project = library.project_of(path) if path.is_file() else None

    def read(self, path: Path, *, own: bool = True) -> dict[str, Any]:
        """Read the mapping in a file; names relative to the file become whole paths.

        Args:
            own: False for a file that counts as foreign wherever it is: a recipe in a run's folder.

        Raises:
            RecipeError: see `documents.read_mapping`.
        """
        data = documents.read_mapping(path)
        real = path.resolve()
        if library.is_shipped(real) or (own and is_own(path)):
            self.own.append(real)
        else:
            self.foreign[real] = blake2b(real.read_bytes(), digest_size=16).hexdigest()
        return anchored(data, path.parent, library.project_of(path))

    def holds(self, path: Path) -> bool:
        """Return True if a file is in the folder of one of these files, or in the shipped
        library."""
        folders = [file.parent for file in (*self.own, *self.foreign)]
        real = path.resolve()
        return library.is_shipped(real) or any(real.is_relative_to(f) for f in folders)
