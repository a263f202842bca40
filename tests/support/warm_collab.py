"""`collab` processes, forked from one that has already imported torch.

They start, stop and die like any process, but without the time for imports.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import IO, Any

WARM = (
    "collab.cli.commands.train",
    "collab.cli.live.running",
    "collab.cli.screen.results",
    "collab.models.local.fast.prepacked_weights",
    "collab.models.local.generation",
    "collab.rewards.generic",
    "collab.runtime.protocols.parallel",
    "collab.sandbox.jail.layers.linux",
    "collab.trainers.credit.magrpo",
    "collab.trainers.training.run",
    "peft.utils.transformers_weight_conversion",
    "transformers.models.llama.modeling_llama",
)
"""Modules that a training imports, so that its process need not."""


@dataclass
class Started:
    """A `collab` process that is running or has ended."""

    pid: int
    stdout: IO[str]
    _stderr: Path
    _server: IO[str]

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has already ended."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def end(self) -> tuple[int, str]:
        """Wait for the end; return the exit status, negative after a signal, and stderr."""
        self.stdout.read()
        self.stdout.close()
        return int(self._server.readline()), self._stderr.read_text()


class WarmCollab:
    """Starts one `collab` process after another, each in a folder."""

    def __enter__(self) -> WarmCollab:
        self._server = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def start(self, folder: Path, *arguments: str) -> Started:
        stdin, stdout = self._server.stdin, self._server.stdout
        assert stdin
        assert stdout
        pipe, errors = folder / "stdout", folder / "stderr"
        pipe.unlink(missing_ok=True)
        os.mkfifo(pipe)
        print(json.dumps([str(folder), *arguments]), file=stdin, flush=True)
        return Started(int(stdout.readline()), pipe.open(), errors, stdout)

    def __exit__(
        self, kind: type[BaseException] | None, error: Any, traceback: TracebackType | None
    ) -> None:
        self._server.communicate()


def serve() -> None:
    """Fork per line of stdin; print the process id, and later its exit status."""
    for module in WARM:
        import_module(module)
    gc.freeze()  # forked processes do not copy these objects when they collect garbage

    for line in sys.stdin:
        folder, *arguments = json.loads(line)
        pid = os.fork()
        if pid == 0:
            run(folder, arguments)
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def run(folder: str, arguments: list[str]) -> None:
    """Run `collab` in this process and exit."""
    os.chdir(folder)
    for number, name, flags in [
        (0, os.devnull, os.O_RDONLY),
        (1, "stdout", os.O_WRONLY),
        (2, "stderr", os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
    ]:
        os.dup2(os.open(name, flags), number)
    sys.argv = ["collab", *arguments]
    from collab.cli import main

    main()


if __name__ == "__main__":
    serve()
