"""The warden: forks workers on the court's word, and ends them.

It is forked from the court before the first trial, so no test was ever in its memory. The court
speaks to it over a socket pair: `admit` (with two descriptors) forks a worker, `dismiss` kills it
and is answered with its exit status.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
from dataclasses import asdict
from typing import Any, NoReturn

from . import wire, worker
from .jail import LINUX, Jail
from .layers import LayerUnavailable
from .limits import Limits
from .preload import MODULES, preload

ANSWER_SECONDS = 10.0
_MESSAGE_BYTES = 1 << 16


class WardenLost(Exception):
    """The warden does not answer any more."""


class Warden:
    """The court's side. `unavailable` says which layer could not be put on, if any."""

    def __init__(self, layers: frozenset[str]) -> None:
        kind = socket.SOCK_SEQPACKET if LINUX else socket.SOCK_DGRAM
        ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
        self.pid = os.fork()
        if self.pid == 0:
            ours.close()
            _guard(theirs, Jail(layers))
        theirs.close()
        self._socket = ours
        self.unavailable: dict[str, str] | None = self._answer().get("refused")

    def admit(self, incoming: int, outgoing: int, limits: Limits) -> None:
        """Have a worker forked that reads and writes these two descriptors."""
        message = json.dumps(asdict(limits)).encode()
        try:
            socket.send_fds(self._socket, [message], [incoming, outgoing])
        except OSError as error:
            raise WardenLost(str(error)) from error

    def dismiss(self) -> int:
        """Kill the worker and all that it made; the wait status that it ended with."""
        try:
            self._socket.send(b"null")
        except OSError as error:
            raise WardenLost(str(error)) from error
        return int(self._answer()["status"])

    def _answer(self) -> dict[str, Any]:
        readable, _, _ = select.select([self._socket], [], [], ANSWER_SECONDS)
        data = self._socket.recv(_MESSAGE_BYTES) if readable else b""
        if not data:
            raise WardenLost(f"no answer within {ANSWER_SECONDS:g} s")
        answer: dict[str, Any] = json.loads(data)
        return answer

    def release(self) -> None:
        """Let go of the socket, in a process that is not the court."""
        self._socket.close()


def _guard(channel: socket.socket, jail: Jail) -> NoReturn:
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        # From here on no file of Python's may be needed: a worker has none, and when root is
        # given up the interpreter's own folder may not be readable any more.
        preload(MODULES)
        try:
            jail.enter()
        except LayerUnavailable as error:
            _tell(channel, worker.refusal(error))
        else:
            _tell(channel, {"ready": True})
            _serve(channel, jail)
    finally:
        os._exit(0)


def _serve(channel: socket.socket, jail: Jail) -> None:
    pid: int | None = None
    while True:
        message, fds, _, _ = socket.recv_fds(channel, _MESSAGE_BYTES, 2)
        if not message:
            return
        request = json.loads(message)
        if request is None:
            _tell(channel, {"status": jail.end(pid) if pid is not None else 0})
            pid = None
            continue
        pid = _admit(jail, Limits(**request), *fds)
        for fd in fds:
            os.close(fd)


def _admit(jail: Jail, limits: Limits, incoming: int, outgoing: int) -> int | None:
    try:
        return jail.spawn(limits, lambda seal: worker.work(incoming, outgoing, limits, seal))
    except LayerUnavailable as error:
        wire.send(outgoing, worker.refusal(error))
        return None


def _tell(channel: socket.socket, message: dict[str, Any]) -> None:
    channel.send(json.dumps(message).encode())
