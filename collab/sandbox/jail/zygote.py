"""The zygote: forks sealed processes on the supervisor's command, and ends them.

It is forked from the supervisor before the first trial, so no test and no program was ever in its
memory. The supervisor has two: one for workers, one for test runners. It controls each over a
socket pair: `start_process` (with descriptors) forks a process, `kill_process` kills it, and
`read_status` returns its exit status.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cached_property
from typing import Any, NoReturn

from . import wire
from .layers.stack import LayerUnavailable
from .limits import Limits
from .processes import FIRST_FD, Jail, keep_descriptors

ANSWER_SECONDS = 30.0
_MESSAGE_BYTES = 1 << 16
_MAX_FDS = 8

SealedBody = Callable[[Limits], None]
"""The code of a sealed process, given its limits."""


class ZygoteLost(Exception):
    """The zygote no longer answers."""


class Zygote:
    """The supervisor's side of a zygote."""

    def __init__(self, jail: Jail, body: SealedBody, *existing: Zygote) -> None:
        """Fork a zygote. The new zygote closes the sockets of the `existing` ones."""
        self._socket, child_socket = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if self.pid == 0:
            self._socket.close()
            for other in existing:
                other._socket.close()
            _run_zygote(child_socket, jail, body)
        child_socket.close()

    @cached_property
    def unavailable(self) -> dict[str, str] | None:
        """The layer that could not be applied, or None. Reading this waits until it is known."""
        return self._answer().get("refused")

    def start_process(self, fds: Sequence[int], limits: Limits) -> None:
        """Fork a process that gets the descriptors `fds` and runs under `limits`.

        The first descriptor is for printing. The last one reports if the process is not sealed.
        """
        self._command(asdict(limits), fds)

    def kill_process(self) -> None:
        """Kill the process and all its children. `read_status` waits for it."""
        self._command(None)

    def _command(self, request: dict[str, Any] | None, fds: Sequence[int] = ()) -> None:
        try:
            socket.send_fds(self._socket, [json.dumps(request).encode()], list(fds))
        except OSError as error:
            raise ZygoteLost(str(error)) from error

    def read_status(self) -> int:
        """Return the wait status of the process, after `kill_process`."""
        return int(self._answer()["status"])

    def end(self) -> None:
        """Kill the zygote and all its processes. The caller waits for them."""
        # The kill reaches the first of its two processes. If the second is not yet bound to the end
        # of the first, the closed socket ends it.
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self._socket.close()

    def _answer(self) -> dict[str, Any]:
        readable, _, _ = select.select([self._socket], [], [], ANSWER_SECONDS)
        data = self._socket.recv(_MESSAGE_BYTES) if readable else b""
        if not data:
            raise ZygoteLost(f"no answer within {ANSWER_SECONDS:g} s")
        answer: dict[str, Any] = json.loads(data)
        return answer


def _run_zygote(channel: socket.socket, jail: Jail, body: SealedBody) -> NoReturn:
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        try:
            jail.enter()
        except LayerUnavailable as error:
            _send(channel, error.frame())
        else:
            _send(channel, {"ready": True})
            _serve(channel, jail, body)
    finally:
        os._exit(0)


def _serve(channel: socket.socket, jail: Jail, body: SealedBody) -> None:
    pid: int | None = None
    while True:
        message, fds, _, _ = socket.recv_fds(channel, _MESSAGE_BYTES, _MAX_FDS)
        if not message:
            return
        request = json.loads(message)
        if request is None:
            _send(channel, {"status": jail.end(pid) if pid is not None else 0})
            pid = None
            continue
        pid = _start_process(jail, body, Limits(**request), fds)
        for fd in fds:
            os.close(fd)


def _start_process(jail: Jail, body: SealedBody, limits: Limits, fds: Sequence[int]) -> int | None:
    def run_sealed(seal: Callable[[], None]) -> None:
        keep_descriptors(*fds)
        try:
            seal()
        except LayerUnavailable as error:
            wire.send(FIRST_FD + len(fds) - 2, error.frame())
            return
        body(limits)

    try:
        return jail.spawn(limits, run_sealed)
    except LayerUnavailable as error:
        wire.send(fds[-1], error.frame())
        return None


def _send(channel: socket.socket, message: dict[str, Any]) -> None:
    channel.send(json.dumps(message).encode())
