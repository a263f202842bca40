"""Runs a helper program under a watchdog, which stops it if it makes no progress or if this process
ends.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence

from collab.errors import ModelTimeout, ModelUnavailable

POLL_SECONDS = 0.1


def run_watched(
    command: Sequence[str],
    *,
    what: str,
    remedy: str,
    tick: Callable[[], int],
    idle_seconds: float,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run `command` to its end, and call `tick` repeatedly. An exception in `tick` ends the
    command.

    The command's standard input is an empty pipe that breaks when this process dies. `tick` returns
    a number that grows as the program progresses.

    Raises:
        ModelTimeout: the number does not grow for `idle_seconds`.
        ModelUnavailable: the program fails. The message has its last error.
    """
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
        )
        try:
            _wait(process, what, tick, idle_seconds)
        finally:
            process.kill()
            process.communicate()
        if process.returncode != 0:
            output.seek(0)
            words = _last_words(output.read().decode(errors="replace"))
            raise ModelUnavailable(f"{what} failed: {words}; {remedy}")


def _wait(
    process: subprocess.Popen[bytes], what: str, tick: Callable[[], int], idle_seconds: float
) -> None:
    reached, since = -1, time.monotonic()
    while True:
        try:
            process.wait(POLL_SECONDS)
        except subprocess.TimeoutExpired:
            now, position = time.monotonic(), tick()
            if position != reached:
                reached, since = position, now
            elif now - since > idle_seconds:
                raise ModelTimeout(
                    f"{what} made no progress for {idle_seconds:g} s; try again"
                ) from None
        else:
            return


def _last_words(text: str) -> str:
    """Return the last line with an error, or the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or ["no message"])[-1]
