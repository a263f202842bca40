"""Files of lines: each is appended whole or not at all; one that was cut off is taken back."""

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
        """Open or make the file; a last line that was cut off is taken back.

        `remedy` ends the message of a line that does not fit.

        Raises:
            OSError: the file cannot be opened.
        """
        self.path, self._remedy = path, remedy
        self._stream = path.open("ab", buffering=0)
        if (whole := _whole_size(path)) < self.size():
            self.cut(whole)

    def append(self, line: str) -> None:
        """Add a line, whole or not at all.

        Raises:
            RecordError: it cannot be written; the file is as it was.
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
        """How long the file is, in bytes."""
        return self._stream.seek(0, 2)

    def cut(self, size: int) -> None:
        """Forget what lies beyond `size` bytes.

        Raises:
            RecordError: the file is shorter, and would be filled up with zeros.
        """
        if size > self.size():
            raise RecordError(
                f"{self.path} has {self.size():,} bytes, too few to be cut to {size:,}; put the"
                " whole file back"
            )
        self._stream.truncate(size)

    def sync(self) -> None:
        """Bring all lines to the disk."""
        os.fsync(self._stream.fileno())

    def close(self) -> None:
        self._stream.close()


def whole_lines(path: Path) -> tuple[list[bytes], bool]:
    """The lines that end, and whether one more follows that was cut off.

    Raises:
        RecordError: the file cannot be read.
    """
    try:
        *lines, rest = path.read_bytes().split(b"\n")
    except OSError as error:
        raise RecordError(f"{path}: cannot be read: {error.strerror}") from error
    return lines, bool(rest)


def _whole_size(path: Path) -> int:
    """The bytes up to the end of the last line that ends."""
    with path.open("rb") as stream:
        size = stream.seek(0, 2)
        if size == 0:
            return 0
        stream.seek(-1, 2)
        if stream.read(1) == b"\n":
            return size
        stream.seek(0)
        return stream.read().rfind(b"\n") + 1


BLOCK = 1 << 16
"""Bytes that are read at a time from the end of a file."""


class Tail:
    """The lines of a file as they come; those that were taken back are not missed."""

    def __init__(self, path: Path) -> None:
        """The file need not be there yet."""
        self.path = path
        self._read = 0

    def lines(self) -> list[bytes]:
        """The whole lines that were added since the last call.

        Where the file has become shorter, as when a run goes on from a checkpoint, what is
        written from there on is new.
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
    """The last line of a file that ends; None where there is none."""
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
