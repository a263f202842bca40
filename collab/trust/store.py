"""What the user has said yes to: one small file each, in the user's configuration folder.

The name of a file is the digest of what was agreed to, its text says it in words. Taking a file
away takes the yes back.
"""

from __future__ import annotations

import os
from pathlib import Path


def folder() -> Path:
    """`$XDG_CONFIG_HOME/collab/trusted`, where that is absolute; else below `~/.config`."""
    named = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(named) if os.path.isabs(named) else Path.home() / ".config"  # noqa: PTH117
    return base / "collab" / "trusted"


_HERE: set[Path] = set()
"""Yeses that no file could take; they last as long as the process."""


def holds(digest: str) -> bool:
    file = folder() / digest
    return file in _HERE or file.is_file()


def add(digest: str, text: str) -> None:
    """Note a yes, in memory if the folder cannot be written."""
    place = folder()
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        (place / digest).write_text(text + "\n", encoding="utf-8")
    except OSError:
        _HERE.add(place / digest)
