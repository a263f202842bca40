"""Folders that a test must leave alone."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def unchanged(folder: Path) -> Iterator[None]:
    """Check that the block writes no file in `folder`, not even with the same content."""
    before = _files_of(folder)
    yield
    assert _files_of(folder) == before


def _files_of(folder: Path) -> dict[Path, tuple[bytes, int]]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}
