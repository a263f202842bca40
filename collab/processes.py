"""Processes that end with their parent."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def end_with_parent(parent: int | None = None) -> None:
    """Let Linux send SIGTERM to this process when its parent ends, so that nothing runs on unseen.

    With the id of the `parent`, the process also ends if the parent has already ended.
    """
    if sys.platform == "linux":
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if parent not in (None, os.getppid()):
            os._exit(1)
