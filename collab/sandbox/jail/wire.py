"""Frames over a file descriptor: length in four bytes, then JSON."""

from __future__ import annotations

import json
import os
import select
import struct
from collections.abc import Callable
from typing import Any

from .limits import Limits

HEADER = struct.Struct(">I")
_READ_BYTES = 1 << 13
"""Number of bytes to request at once. Most frames arrive with a single call."""
_MAX_READ_BYTES = 1 << 20
TRIAL_BYTES = 1 << 30
"""Largest frame with a program and its test."""
ENVELOPE_BYTES = 4096
"""Bytes that a frame may have in addition to those of the answer in it."""
_encode = json.JSONEncoder(separators=(",", ":")).encode


class Closed(Exception):
    """The other end is closed."""


class Malformed(Exception):
    """The received data is not a frame, or a larger one than allowed."""


class TooLong(Malformed):
    """The received frame is larger than allowed."""


def pack(message: object) -> bytes:
    """Return a message as a frame: its length, then its JSON."""
    body = _encode(message).encode("ascii")
    return HEADER.pack(len(body)) + body


def send(fd: int, message: object) -> None:
    """Write one frame to the descriptor `fd`.

    Raises:
        Closed: the reader has closed it.
    """
    view = memoryview(pack(message))
    try:
        while view:
            view = view[os.write(fd, view) :]
    except (BrokenPipeError, ConnectionResetError) as error:
        raise Closed from error


class Reader:
    """Reads frames of at most `limit` bytes from `fd`, without other readers."""

    def __init__(self, fd: int, limit: int) -> None:
        self.fd, self._limit = fd, limit
        self._read = bytearray()
        self._due = HEADER.size
        """Size of the next frame in bytes, if known."""

    @property
    def is_empty(self) -> bool:
        """True if all read data was received."""
        return not self._read

    @property
    def is_complete(self) -> bool:
        """True if a whole frame was read.

        Raises:
            TooLong: the frame exceeds the limit.
        """
        if self._due == HEADER.size <= len(self._read):
            (length,) = HEADER.unpack_from(self._read)
            if length > self._limit:
                raise TooLong(f"a frame of {length} bytes is over the limit of {self._limit}")
            self._due += length
        return len(self._read) >= self._due > HEADER.size

    def read(self) -> None:
        """Read the available data, waiting until there is some.

        Raises:
            Closed: there is no more data.
        """
        missing = self._due - len(self._read)
        part = os.read(self.fd, min(max(missing, _READ_BYTES), _MAX_READ_BYTES))
        if not part:
            raise Closed
        self._read += part

    def receive(self) -> Any:
        """Return the next frame.

        Raises:
            Closed: there is no more frame.
            Malformed: the frame is invalid.
        """
        while not self.is_complete:
            self.read()
        body = self._read[HEADER.size : self._due]
        del self._read[: self._due]
        self._due = HEADER.size
        try:
            return json.loads(body.decode("ascii"))
        except (ValueError, RecursionError) as error:
            raise Malformed(f"not a frame: {type(error).__name__}") from error


class WorkerConnection:
    """The two pipes to the worker. Once the worker has ended, every request gets an empty answer at
    once."""

    def __init__(self, incoming: int, outgoing: int, limits: Limits, report: Callable[..., None]):
        self._out = outgoing
        self._in = Reader(incoming, limits.answer_bytes + ENVELOPE_BYTES)
        self._report = report
        self.ended: str | None = None

    def send(self, message: object) -> None:
        """Send a message to the worker, if it has not ended."""
        if self.ended is None:
            try:
                send(self._out, message)
            except Closed:
                self.end("the worker ended", "worker_died")

    def receive(self) -> dict[str, Any]:
        """Return the next frame, or an empty frame at the end of the stream."""
        if self.ended is not None:
            return {}
        try:
            frame = self._in.receive()
        except Closed:
            return self.end("the worker ended", "worker_died")
        except TooLong as error:
            return self.end(str(error), "answer_limit")
        except Malformed as error:
            return self.end(str(error), "protocol_violation")
        if not isinstance(frame, dict):
            return self.end("a frame that is not a message", "protocol_violation")
        return frame

    def is_quiet(self) -> bool:
        """Return True if the worker has sent nothing that was not requested."""
        return self._in.is_empty and not select.select([self._in.fd], [], [], 0)[0]

    def end(self, reason: str, flag: str) -> dict[str, Any]:
        """End the connection, report `flag` with the reason, and return an empty frame."""
        self.ended = reason
        self._report({"flag": flag, "reason": reason})
        return {}
