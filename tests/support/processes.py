"""Starts `collab` in separate processes and waits for them."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
COLLAB = (sys.executable, "-m", "collab")


def environment(**changes: str) -> dict[str, str]:
    """The environment in which a process finds this package."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **changes}


def start(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    """Start a command with piped output."""
    popen_options = {
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "env": environment(),
        **options,
    }
    return subprocess.Popen([*COLLAB, *arguments], text=True, **popen_options)


def wait_for(happened: Callable[[], bool], seconds: float = 240) -> None:
    until = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < until, "the condition did not become true"
        time.sleep(0.05)


def wait_for_episode(process: subprocess.Popen[Any], run: Path) -> None:
    """Wait until a running process has finished the first episode of a run."""
    episodes = run / "episodes.jsonl"

    def has_finished() -> bool:
        assert process.poll() is None, process.communicate()
        return episodes.exists() and episodes.stat().st_size > 0

    wait_for(has_finished, 30)
