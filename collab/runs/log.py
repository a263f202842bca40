"""Files of lines: each is appended whole or not at all; one that was cut off is taken back."""

from __future__ import annotations

import os
from pathlib import Path

from collab.errors import RecordError


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
