"""Line-based log files: each line is appended completely or not at all; a truncated one is
removed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from collab.errors import CollabError, RecordError

if TYPE_CHECKING:
    import pandas


class Log:
    """A file of lines, open for appending by one process."""

    def __init__(self, path: Path, remedy: str = "free some room") -> None:
        """Open or create the file; a truncated last line is removed.

        `remedy` ends the message for a line that does not fit.

        Raises:
            OSError: the file cannot be opened.
        """
        self.path, self._remedy = path, remedy
        self._stream = path.open("ab", buffering=0)
        if (whole := _whole_size(path)) < self.size():
            self.cut(whole)

    def append(self, line: str) -> None:
        """Append a line, completely or not at all.

        Raises:
            RecordError: it cannot be written; the file is unchanged.
        """
        data = line.encode() + b"\n"
        before = self.size()
        try:
            written = self._stream.write(data)
        except OSError as error:
            self.cut(before)
            raise RecordError(f"{self.path}: {error.strerror}; {self._remedy}") from error
        if written != len(data):
            self.cut(before)
            raise RecordError(
                f"{self.path}: only {written} of {len(data)} bytes fit; {self._remedy}"
            )

    def size(self) -> int:
        """Return the size of the file in bytes."""
        return self._stream.seek(0, 2)

    def cut(self, size: int) -> None:
        """Truncate the file to `size` bytes.

        Raises:
            RecordError: the file is shorter, and would be padded with zeros.
        """
        if size > self.size():
            raise RecordError(
                f"{self.path} has {self.size():,} bytes, fewer than {size:,}; put the whole file"
                " back"
            )
        self._stream.truncate(size)

    def sync(self) -> None:
        """Flush all lines to the disk."""
        os.fsync(self._stream.fileno())

    def close(self) -> None:
        self._stream.close()


def whole_lines(path: Path) -> tuple[list[bytes], bool]:
    """Return the complete lines, and whether a truncated one follows.

    Raises:
        RecordError: the file cannot be read.
    """
    try:
        *lines, rest = path.read_bytes().split(b"\n")
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}") from error
    return lines, bool(rest)


BLOCK = 1 << 16
"""Bytes read at a time from the end of a file."""


def _whole_size(path: Path) -> int:
    """Return the bytes up to the end of the last complete line, read from the end."""
    with path.open("rb") as stream:
        end = stream.seek(0, 2)
        while end:
            start = max(0, end - BLOCK)
            stream.seek(start)
            if newline := stream.read(end - start).rfind(b"\n") + 1:
                return start + newline
            end = start
    return 0


class Tail:
    """Reads the lines of a growing file; removed lines are not missed."""

    def __init__(self, path: Path) -> None:
        """Follow a file, which need not exist yet."""
        self.path = path
        self._read = 0

    def lines(self) -> list[bytes]:
        """Return the complete lines that were added since the last call.

        If the file has become shorter, as when a run continues from a checkpoint, later lines are
        new.
        """
        try:
            with self.path.open("rb") as stream:
                size = stream.seek(0, 2)
                self._read = min(self._read, size)
                stream.seek(self._read)
                data = stream.read()
        except OSError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        return whole.splitlines()


def last_line(path: Path) -> bytes | None:
    """Return the last complete line of a file; None if there is none."""
    try:
        with path.open("rb") as stream:
            place, data = stream.seek(0, 2), b""
            while place and data.rstrip(b"\n").count(b"\n") < 1 + (not data.endswith(b"\n")):
                step = min(BLOCK, place)
                place -= step
                stream.seek(place)
                data = stream.read(step) + data
    except OSError:
        return None
    lines = data.split(b"\n")[:-1]
    return lines[-1] if lines else None


def to_pandas(rows: Iterable[Mapping[str, Any]]) -> pandas.DataFrame:
    """Make a data frame of rows, e.g. those of `read_metrics` and `list_runs`.

    Raises:
        CollabError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise CollabError("to_pandas needs pandas; remedy: pip install pandas") from error
    return pandas.DataFrame.from_records([dict(row) for row in rows])
