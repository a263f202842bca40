"""What a shell may complete: names of the library and of this folder, and what runs have left.

Each function is called in the shell's own process of collab, so that it imports what it needs.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collab.recipe.library import Kind


def teams(incomplete: str) -> list[str]:
    """Teams by name, and folders of runs."""
    return [*_named("team", incomplete), *runs(incomplete)]


def suites(incomplete: str) -> list[str]:
    """Suites by name."""
    return _named("task", incomplete)


def trainers(incomplete: str) -> list[str]:
    """Trainers by name."""
    return _named("trainer", incomplete)


def runs(incomplete: str) -> list[str]:
    """Folders of runs, of evaluations and of their teams, where the commands leave them."""
    from collab.runs.layout import MARKS, PLACES

    found = {
        str(file.parent)
        for place in PLACES
        for mark in MARKS
        for pattern in (f"*/{mark}", f"*/*/{mark}")
        for file in Path(place).glob(pattern)
    }
    return sorted(folder for folder in found if folder.startswith(incomplete))


def _named(kind: Kind, incomplete: str) -> list[str]:
    from collab.recipe import library

    names = {name for name, _ in library.components(kind)}
    return sorted(name for name in names if name.startswith(incomplete))
