"""Opens files that others may have made."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from io import BufferedReader
from pathlib import Path
from stat import S_ISREG

from collab.errors import RecordError

MIN_SPARSE_BYTES, MAX_SPARSE_RATIO = 1 << 28, 100
"""Size from which a file may have at most this many bytes per byte that is no hole."""


def open_file(path: Path) -> BufferedReader:
    """Open a file for reading. Devices, pipes and large files of holes are refused, because they
    may have no end.

    Raises:
        OSError: the file cannot be opened, or `path` is not a regular file with data.
    """
    try:
        stream = open(path, "rb", opener=open_regular_file)  # noqa: SIM115
    except ValueError as error:  # a NUL in the name
        raise OSError(errno.EINVAL, str(error), str(path)) from error
    size = os.fstat(stream.fileno()).st_size
    if size >= MIN_SPARSE_BYTES and size > MAX_SPARSE_RATIO * (stored := _count_data(stream, size)):
        stream.close()
        why = f"only {stored:,} of its {size:,} bytes are on the disk; use cp --sparse=never"
        raise OSError(errno.EFBIG, why, str(path))
    return stream


def _count_data(stream: BufferedReader, size: int) -> int:
    """Return the bytes of a file outside its holes. Not all file systems count blocks."""
    total = end = 0
    while end < size:
        try:
            start = os.lseek(stream.fileno(), end, os.SEEK_DATA)
        except OSError:  # the rest is a hole
            break
        end = os.lseek(stream.fileno(), start, os.SEEK_HOLE)
        total += end - start
    stream.seek(0)
    return total


def read_bytes(path: Path) -> bytes:
    """Return the content of a file.

    Raises:
        OSError: as `open_file`.
    """
    with open_file(path) as stream:
        return stream.read()


_READ_DATA: dict[str, bytes] = {}


def read_data(path: Path) -> bytes:
    """Return the content of a data file, and keep it for `last_read_data`.

    Raises:
        OSError: as `open_file`.
    """
    content = _READ_DATA[os.path.realpath(path)] = read_bytes(path)
    return content


def last_read_data(path: Path) -> bytes | None:
    """Return the content of a data file when this process last read it, or None."""
    return _READ_DATA.get(os.path.realpath(path))


def open_regular_file(name: str, flags: int) -> int:
    """Open a file for `open`, as its `opener`. Devices and pipes are refused.

    Raises:
        OSError: the file cannot be opened, or `name` is not a regular file.
    """
    handle = os.open(name, flags | os.O_NONBLOCK, 0o666)  # a pipe has nobody at its other end
    if S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    raise OSError(errno.EINVAL, "not a file", name)


def check_within(folder: Path, paths: Iterable[Path], remedy: str = "") -> None:
    """Check that no path leads out of `folder` by a symbolic link. `remedy` ends the message.

    Raises:
        RecordError: a path leads out of the folder.
    """
    root = folder.resolve()
    for path in paths:
        real = Path(os.path.realpath(path))  # `resolve` refuses links in a circle
        if not real.is_relative_to(root):
            raise RecordError(
                f"{path} is a link to {real}, outside {folder}; put the file itself there{remedy}"
            )
