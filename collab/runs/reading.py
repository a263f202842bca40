"""Reads files that others may have written."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO


def open_file(path: Path) -> BinaryIO:
    """Open a file for reading. Devices and pipes are refused, because they may have no end.

    Raises:
        OSError: it cannot be opened, or is no file.
    """
    try:
        return open(path, "rb", opener=_opened)
    except ValueError as error:  # a NUL in the name
        raise OSError(errno.EINVAL, str(error), str(path)) from error


def read_bytes(path: Path) -> bytes:
    """Return the content of a file.

    Raises:
        OSError: as `open_file`.
    """
    with open_file(path) as stream:
        return stream.read()


def _opened(name: str, flags: int) -> int:
    handle = os.open(name, flags | os.O_NONBLOCK)  # a pipe has nobody who writes
    if S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    raise OSError(errno.EINVAL, "not a file", name)
