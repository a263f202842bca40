"""Frames over a file descriptor: four bytes of length, then JSON."""

from __future__ import annotations

import json
import os
import struct
from typing import Any

HEADER = struct.Struct(">I")


class Closed(Exception):
    """The other end is gone."""


class Malformed(Exception):
    """What arrived is not a frame, or a larger one than was allowed."""


def pack(message: object) -> bytes:
    body = json.dumps(message, separators=(",", ":")).encode("ascii")
    return HEADER.pack(len(body)) + body


def send(fd: int, message: object) -> None:
    """Write one frame. Raises Closed when nobody can read it any more."""
    send_packed(fd, pack(message))


def send_packed(fd: int, frame: bytes) -> None:
    view = memoryview(frame)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except (BrokenPipeError, ConnectionResetError) as error:
        raise Closed from error


def receive(fd: int, limit: int) -> Any:
    """Read one frame of at most `limit` bytes. Raises Closed or Malformed."""
    (length,) = HEADER.unpack(_exactly(fd, HEADER.size))
    if length > limit:
        raise Malformed(f"a frame of {length} bytes is over the limit of {limit}")
    try:
        return json.loads(_exactly(fd, length))
    except (ValueError, RecursionError) as error:
        raise Malformed(f"not a frame: {type(error).__name__}") from error


def _exactly(fd: int, count: int) -> bytes:
    parts: list[bytes] = []
    while count:
        part = os.read(fd, min(count, 1 << 20))
        if not part:
            raise Closed
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
