"""The caller's side of one supervisor: a child process that answers one request at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from collab.errors import SandboxError
from collab.sandbox.jail import wire

MAX_ANSWER_BYTES = 1 << 26
END_SECONDS = 2.0
_ISOLATION_FLAGS = ("-P", "-s", "-S")
"""Flags with the effect of `-I`, except that the interpreter still reads `PYTHONHASHSEED`."""
_PACKAGE_FOLDER = str(Path(__file__).parent)
_SETUP_CODE = "import sys; sys.path.append(sys.argv[1]); "
_MAIN_CODE = "from jail.supervisor import main; main(int(sys.argv[2]), sys.argv[3])"


def interpreter(main: str, *arguments: str) -> list[str]:
    """Return the command of a bare interpreter that runs `main` with the supervisor's modules.

    The interpreter sees none of the caller's settings, site packages and folder. `sys.argv[2:]` are
    `arguments`.
    """
    return [
        sys.executable,
        *_ISOLATION_FLAGS,
        "-c",
        f"{_SETUP_CODE}{main}",
        _PACKAGE_FOLDER,
        *arguments,
    ]


def bare_environment() -> dict[str, str]:
    """Return an environment that contains only a fixed hash seed and, if set, LD_LIBRARY_PATH.

    The seed determines the order of a set of strings, so a program's answer may depend on it. All
    supervisors use the same seed and therefore reach the same verdict.
    """
    libraries = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    return {"PYTHONHASHSEED": "0", **libraries}


class JailClient:
    """A running supervisor. Calls block, so use it from one thread at a time, except for `end`."""

    def __init__(self, isolation: str) -> None:
        try:
            self._process = subprocess.Popen(
                interpreter(_MAIN_CODE, str(os.getpid()), isolation),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                env=bare_environment(),
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            raise SandboxError(f"the sandbox's process cannot be started: {error}") from error
        assert self._process.stdout is not None
        self._answers = wire.Reader(self._process.stdout.fileno(), MAX_ANSWER_BYTES)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run one trial, and return the supervisor's answer.

        Raises:
            SandboxError: the supervisor has ended.
        """
        assert self._process.stdin is not None
        try:
            wire.send(self._process.stdin.fileno(), request)
            answer: dict[str, Any] = self._answers.receive()
        except (wire.Closed, wire.Malformed) as error:
            self.end()
            raise SandboxError(
                f"the sandbox's process {self.pid} ended during a trial (exit status"
                f" {self._process.returncode}); the next trial starts a new one"
            ) from error
        return answer

    def stop(self) -> None:
        """Ask the supervisor to end itself and all its processes. `end` waits for it."""
        with suppress(ProcessLookupError):
            self._process.terminate()

    def end(self) -> None:
        """Stop the supervisor and wait until all its processes have ended."""
        self.stop()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
