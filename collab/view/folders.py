"""The runs in some folders, by the names that a page uses; nothing else is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from collab.errors import RecordError
from collab.runs.about import RUNNING
from collab.runs.layout import (
    ADAPTERS,
    CHECKPOINTS,
    EPISODES,
    EVAL,
    EVALUATION,
    FUNCTIONS,
    METRICS,
    MODELS,
    RUN,
)
from collab.runs.listing import Listed, newest_first, row_of, runs_in

GROWING = (RUN, EPISODES, METRICS, EVALUATION, EVAL)
"""Files that are written while a run is at work."""

UNREAD = (ADAPTERS, MODELS, CHECKPOINTS, FUNCTIONS)


class NoRun(RecordError):
    """There is no such run under the folders."""


class Folders:
    """Some folders and the runs in them. A run is named by its name in the list, never by a
    path."""

    def __init__(self, roots: Sequence[Path]) -> None:
        self._roots = [root.resolve() for root in roots]

    def rows(self) -> list[dict[str, Any]]:
        """A row per run, newest first."""
        listed = {name: row_of(folder) for name, folder in self._runs().items()}
        names = sorted(listed, key=lambda name: newest_first(listed[name]))
        return [_row(name, listed[name]) for name in names]

    def find(self, names: Sequence[str]) -> list[Path]:
        """The folders of runs, and of evaluations, by their names.

        Raises:
            NoRun: one is not there, or a link in it leads out of the folders.
        """
        if not names:
            raise NoRun("no run given; choose one from the list")
        known = self._runs()
        known |= {_parent(name): folder.parent for name, folder in known.items()
                  if (folder.parent / EVAL).is_file()}  # fmt: skip
        for name in names:
            if name not in known:
                raise NoRun(f"there is no run {name!r} in these folders; choose one from the list")
            self._check(name, known[name])
        return [known[name] for name in dict.fromkeys(names)]

    def stamp(self, names: Sequence[str]) -> tuple[str, bool]:
        """A stamp that changes with the runs, and True if one of them is running."""
        folders = self.find(names)
        files = [file for folder in folders for file in _growing(folder)]
        stamps = [f"{stat.st_size}.{stat.st_mtime_ns}" for file in files if (stat := file.stat())]
        rows = [row_of(file.parent) for file in files if file.name == RUN]
        return "-".join(stamps), any(row.status == RUNNING for row in rows)

    def _runs(self) -> dict[str, Path]:
        return {
            self._name(root, file.parent): file.parent
            for root in self._roots
            for file in runs_in(root)
            if _is_within(file, root)
        }

    def _name(self, root: Path, folder: Path) -> str:
        name = folder.relative_to(root)
        path = (root.name / name if len(self._roots) > 1 else name).as_posix()
        # A folder's name may hold bytes that are no text, and no page could.
        return path.encode(errors="backslashreplace").decode()

    def _check(self, name: str, folder: Path) -> None:
        """Raise NoRun where a link leads to what is not ours to read."""
        root = next(root for root in self._roots if folder.is_relative_to(root))
        for path in _read(folder):
            if path.is_symlink() and not _is_within(path, root):
                raise NoRun(f"{name}: {path.name} is a link to a place outside {root.name}/")


def _read(folder: Path) -> Iterator[Path]:
    """All files that a report may read of a run or an evaluation."""
    for path in folder.iterdir():
        yield path
        if path.is_dir() and not path.is_symlink() and path.name not in UNREAD:
            yield from _read(path)


def _growing(folder: Path) -> list[Path]:
    files = [folder / name for name in GROWING]
    files += [path / name for path in sorted(folder.iterdir()) if path.is_dir() for name in GROWING]
    return [file for file in files if file.is_file()]


def _is_within(path: Path, root: Path) -> bool:
    return path.resolve().is_relative_to(root)


def _parent(name: str) -> str:
    return name.rpartition("/")[0] or "."


def _row(name: str, run: Listed) -> dict[str, Any]:
    return {
        "name": name,
        "evaluation": _parent(name) if run.kind == "evaluation" else None,
        "began": run.began.isoformat(timespec="seconds"),
        "kind": run.kind,
        "team": run.team,
        "task": run.task,
        "status": run.status,
        "return": run.outcome.mean_return,
        "largest": run.outcome.largest_return,
        "solved": run.outcome.solved,
    }
