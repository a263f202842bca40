"""The YAML files that a recipe is put together from."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import Any

from collab.recipe import documents, library
from collab.recipe.packing import anchored
from collab.trust.held import is_own


class Files:
    """Reads YAML files, and remembers which of them belong to somebody else."""

    def __init__(self, first: Files | None = None) -> None:
        """With `first`, files that were read before count as well."""
        self.own: list[Path] = [*first.own] if first else []
        """Files of the current project and of the library."""
        self.foreign: dict[Path, str] = {**first.foreign} if first else {}
        """All others, each with a digest of its content."""
        self.project: Path | None = None
        """Where names are looked up first."""

    def begin_at(self, path: Path) -> None:
        """Look names up beside this file first, if there is such a file."""
        self.project = library.project_of(path) if path.is_file() else None

    def read(self, path: Path, *, own: bool = True) -> dict[str, Any]:
        """The mapping in a file; what it names beside itself is named by its whole path.

        Args:
            own: False for a file that is another's wherever it lies: that of a run's folder.

        Raises:
            RecipeError: as `documents.read_mapping`.
        """
        data = documents.read_mapping(path)
        real = path.resolve()
        if library.is_shipped(real) or (own and is_own(path)):
            self.own.append(real)
        else:
            self.foreign[real] = blake2b(real.read_bytes(), digest_size=16).hexdigest()
        return anchored(data, path.parent, library.project_of(path))

    def holds(self, path: Path) -> bool:
        """True if a file lies beside one of these files, or is the library's."""
        folders = [file.parent for file in (*self.own, *self.foreign)]
        real = path.resolve()
        return library.is_shipped(real) or any(real.is_relative_to(f) for f in folders)
