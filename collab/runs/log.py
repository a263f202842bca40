"""Line-based log files. Each line is appended completely or not at all, and a truncated last line
is removed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from collab.errors import CollabError, RecordError
from collab.runs.reading import open_file, open_regular_file
from collab.wording import explain_read_error, list_errors

if TYPE_CHECKING:
    import pandas


class Log:
    """A file of lines, open for appending by one process."""

    def __init__(self, path: Path, remedy: str = "free some space") -> None:
        """Open or create the file, and remove a truncated last line.

        `remedy` ends the message for a line that does not fit.

        Raises:
            OSError: the file cannot be opened.
        """
        self.path, self._remedy = path, remedy
        self._stream = open(path, "ab", buffering=0, opener=open_regular_file)  # noqa: SIM115
        if (whole := _complete_size(path)) < self.size():
            self.cut(whole)

    def append(self, line: str) -> None:
        """Append a line, completely or not at all.

        Raises:
            RecordError: the line cannot be written. The file is unchanged.
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
        """Flush all appended lines to the disk."""
        os.fsync(self._stream.fileno())

    def close(self) -> None:
        self._stream.close()


def iterate_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines one by one. Only a truncated last line does not end with a line feed.

    Raises:
        RecordError: the file cannot be read.
    """
    try:
        with open_file(path) as stream:
            yield from stream
    except OSError as error:
        raise RecordError(explain_read_error(path, error)) from error


BLOCK_BYTES = 1 << 16
"""Number of bytes to read at a time from the end of a file."""


def _complete_size(path: Path) -> int:
    """Return the bytes up to the end of the last complete line, read from the end."""
    with path.open("rb") as stream:
        end = stream.seek(0, 2)
        while end:
            start = max(0, end - BLOCK_BYTES)
            stream.seek(start)
            if newline := stream.read(end - start).rfind(b"\n") + 1:
                return start + newline
            end = start
    return 0


def to_pandas(rows: Iterable[Mapping[str, Any]]) -> pandas.DataFrame:
    """Return rows, e.g. of `read_metrics` or `list_runs`, as a data frame.

    Raises:
        CollabError: pandas is not installed.
    """
    try:
        import pandas
    except ImportError as error:
        raise CollabError("to_pandas needs pandas; run: pip install pandas") from error
    return pandas.DataFrame.from_records([dict(row) for row in rows])


R = TypeVar("R", bound=BaseModel)
T = TypeVar("T")


@dataclass(frozen=True)
class Lines(Generic[T]):
    """The lines of a file, and complaints about it in words."""

    items: list[T]
    broken: list[str]
    """Complaints about complete lines that are invalid."""
    torn: str
    """Complaint about a truncated last line, which a running run may have, or ""."""

    @property
    def complaints(self) -> list[str]:
        """All complaints, one per invalid line, in words."""
        return [*self.broken, self.torn] if self.torn else self.broken


def read_episode_lines(path: Path, kind: type[R]) -> tuple[list[R], list[str]]:
    """Return the valid episodes of a file, and a complaint for each other line."""
    lines = read_lines(path, kind.model_validate_json, "not an episode")
    return lines.items, lines.complaints


def unique_items(items: Iterable[T], key: Callable[[T], Hashable]) -> Iterator[T]:
    """Yield the first item per key, and skip duplicates."""
    known: set[Hashable] = set()
    for item in items:
        if (item_key := key(item)) not in known:
            known.add(item_key)
            yield item


def read_lines(path: Path, parse: Callable[[bytes], T], complaint: str) -> Lines[T]:
    """Parse each line, and return the items and a complaint for each line that `parse` rejects.

    `parse` rejects a line by `ValueError`, `KeyError`, `TypeError` or `OverflowError`. `complaint`
    begins each message, such as "not an episode".

    Raises:
        RecordError: the file cannot be read.
    """
    items, broken, torn = [], [], ""
    for number, line in enumerate(iterate_lines(path), start=1):
        if not line.endswith(b"\n"):
            torn = f"{path}: skipped the last line, which is truncated"
            break
        try:
            items.append(parse(line[:-1]))
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            reason = list_errors(error)[0] if isinstance(error, ValidationError) else str(error)
            broken.append(f"{path}, line {number}: {complaint}: {reason}")
    return Lines(items, broken, torn)


def last_error(text: str) -> str:
    """Return the last error in the output of a command, or "" if there is none."""
    lines = text.splitlines()
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return errors[-1] if errors else ""
