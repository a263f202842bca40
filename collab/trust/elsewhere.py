"""The owner of a file: the user's project, or somebody else."""

from __future__ import annotations

from pathlib import Path

from collab.runs.layout import MARKS


def is_own(path: Path) -> bool:
    """True if a file belongs to the project in the current folder.

    Symbolic links are followed first. A file below the current folder is the project's, unless
    it lies in the folder of a run, which may have been unpacked there; one anywhere else is not.
    """
    real = path.resolve()
    return real.is_relative_to(Path.cwd().resolve()) and run_folder_of(real) is None


def run_folder_of(path: Path) -> Path | None:
    """The nearest folder of a run that a file lies in, the folders above it included."""
    for folder in path.resolve().parents:
        if any((folder / mark).exists() for mark in MARKS):
            return folder
    return None
