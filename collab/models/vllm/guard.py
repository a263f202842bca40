"""Ends commands and workers together with the process they work for, even if that one is killed.

`python -m collab.models.vllm.guard PROCESS COMMAND ...` runs a command.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from threading import Thread

import psutil

POLL_SECONDS = 0.3
GRACE_SECONDS = 10.0
"""Seconds that a process has to end before it is killed."""


def main(process: int, command: list[str]) -> int:
    """Run `command`, end it when `process`, the parent of this process, ends, and return the exit
    status."""
    signal.signal(signal.SIGTERM, _exit)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the parent decides when to end
    with subprocess.Popen(command) as child:
        try:
            while child.poll() is None and os.getppid() == process:
                time.sleep(POLL_SECONDS)
        finally:
            end_tree(child.pid)
        return child.wait()


def end_tree(process: int) -> None:
    """End a process and all its children."""
    try:
        root = psutil.Process(process)
        processes = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    for one in processes:
        with suppress(psutil.NoSuchProcess):
            one.terminate()
    _, left = psutil.wait_procs(processes, GRACE_SECONDS)
    for one in left:
        with suppress(psutil.NoSuchProcess):
            one.kill()


class Follower:
    """Mixin of a vLLM worker that ends with the process it works for.

    vLLM's engine ends with its workers. Otherwise, it would keep running and hold its memory.
    """

    def follow(self, process: int) -> None:
        """End this worker when `process` ends."""
        Thread(target=_end_with, args=(os.pidfd_open(process),), daemon=True).start()


def _end_with(handle: int) -> None:
    select.select([handle], [], [])
    os._exit(1)


def _exit(*_: object) -> None:
    raise SystemExit(128 + signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
