"""A cell's process: `collab train`, which ends with the study's process."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from collab.errors import RecordError

GRACE_SECONDS = 5.0
"""How long a process may take to write down where it is; training itself takes one."""


async def train(arguments: Sequence[str], log: Path, *, threads: int) -> tuple[int, str]:
    """Run `collab train` to its end; its exit status, and the last error that it told.

    When the task is cancelled the process is interrupted as by Ctrl-C, and waited for.

    Raises:
        RecordError: the log cannot be written.
    """
    # One GPU a cell, or each would start a rank on all of them.
    gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "CUDA_VISIBLE_DEVICES": gpu}
    try:
        with log.open("ab") as stream:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "collab", "train", *arguments),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                env=environment,
                start_new_session=True,  # Ctrl-C is told to it by us, once
                preexec_fn=_end_with(os.getpid()) if sys.platform == "linux" else None,
            )
    except OSError as error:
        raise RecordError(f"{log} cannot be written: {error.strerror}") from error
    try:
        status = await process.wait()
    except asyncio.CancelledError:
        await _interrupt(process)
        raise
    if status < 0:
        return (
            status,
            f"killed by {signal.Signals(-status).name}; where memory is short, lower --jobs",
        )
    return status, _last_error(log)


async def _interrupt(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    try:
        await asyncio.wait_for(process.wait(), GRACE_SECONDS)
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _end_with(parent: int) -> Callable[[], None]:
    """Have a process interrupted when its parent is killed, so that nothing trains on unseen."""
    from collab.sandbox.jail.layers import linux

    def prepare() -> None:
        linux.prctl(linux.PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    return prepare


def _last_error(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    told = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return told[-1] if told else (lines[-1] if lines else "it said nothing")
