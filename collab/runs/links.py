"""Refuses links that lead out of a run's folder, because its files may be handed on."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from collab.errors import RecordError


def check_within(folder: Path, paths: Iterable[Path], remedy: str = "") -> None:
    """Check that no path leads out of `folder` by a symbolic link. `remedy` ends the message.

    Raises:
        RecordError: a path leads out of the folder.
    """
    root = folder.resolve()
    for path in paths:
        real = Path(os.path.realpath(path))  # `resolve` refuses links in a circle
        if not real.is_relative_to(root):
            raise RecordError(
                f"{path} is a link to {real}, outside {folder}; put the file itself there{remedy}"
            )
