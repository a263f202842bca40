"""The cache folder for models, and progress of downloads."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

StoreProgress = Callable[[str, int, int], None]
"""Called with a stage in words, and the finished and total bytes. A total of 0 is unknown.

The downloading thread calls it a few times per second. An exception from it ends the download.
"""


def ignore_progress(stage: str, done: int, total: int) -> None:
    """Ignore progress. Pass this function as `progress` for a silent download."""


def cache_root() -> Path:
    """Return $COLLAB_CACHE, else $XDG_CACHE_HOME/collab, else ~/.cache/collab."""
    if root := os.environ.get("COLLAB_CACHE"):
        return Path(root).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "collab"


def folder_bytes(folder: Path) -> int:
    """Return the size of a folder in bytes, even if files appear and vanish meanwhile."""
    total = 0
    for parent, _, names in os.walk(folder):  # skips folders that have vanished
        for name in names:
            with suppress(FileNotFoundError):
                total += (Path(parent) / name).stat().st_size
    return total
