"""Where models are kept, and how the progress of fetching one is reported."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

StoreProgress = Callable[[str, int, int], None]
"""Called with a stage, what is done and the total, in bytes; a total of 0 is not known.

Stages: `download`, `unpack`, `convert`, `wait` (for another process that fetches the same). Called
some times a second by the thread that fetches; what it raises ends the fetching.
"""


def quiet(stage: str, done: int, total: int) -> None:
    """A progress function that does nothing."""


def cache_root() -> Path:
    """$COLLAB_CACHE, else $XDG_CACHE_HOME/collab, else ~/.cache/collab."""
    if root := os.environ.get("COLLAB_CACHE"):
        return Path(root).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "collab"
