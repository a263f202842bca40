"""Whether the process that writes a run is still there."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

RUNNING, KILLED = "running", "killed"
"""What `run.json` says of a run at work, and what is told of one whose process is gone."""


def this_process() -> dict[str, Any]:
    """Identify this process: machine, process id and start time."""
    return {"host": socket.gethostname(), "pid": os.getpid(), "began": _began(os.getpid())}


def status_of(about: Mapping[str, Any]) -> str:
    """The status that `run.json` says, or `killed` where the process that would end it is gone.

    A process on another machine, or of a record that names none, is taken to be there.
    """
    status = str(about.get("status", "done"))
    if status == RUNNING and _is_gone(about.get("process")):
        return KILLED
    return status


def is_elsewhere(about: Mapping[str, Any]) -> bool:
    """True if `run.json` names a process other than this one, and it is still there."""
    process = about.get("process")
    return process is not None and process != this_process() and not _is_gone(process)


def _is_gone(process: Any) -> bool:
    if not isinstance(process, Mapping) or process.get("host") != socket.gethostname():
        return False
    number = process.get("pid")
    if not isinstance(number, int) or number <= 0:
        return False
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # somebody else's
        return False
    return _began(number) != process.get("began")


def _began(number: int) -> str | None:
    """When a process began, in the system's ticks; None where the system does not tell.

    A zombie has ended, so that none of its ticks are those of a process at work.
    """
    with suppress(OSError, IndexError):
        fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
        return "ended" if fields[0] in "ZX" else fields[19]
    return None
