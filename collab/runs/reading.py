"""Reads line-based files as far as possible: they may be truncated or broken."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError

from collab.runs.log import whole_lines
from collab.wording import faults

R = TypeVar("R", bound=BaseModel)
T = TypeVar("T")


@dataclass(frozen=True)
class Lines(Generic[T]):
    """The lines of a file, and complaints about it in words."""

    found: list[T]
    broken: list[str]
    """Complaints about complete lines that are invalid."""
    torn: str
    """Complaint about a truncated last line, as a running run may have; or ""."""

    @property
    def complaints(self) -> list[str]:
        """All complaints."""
        return [*self.broken, self.torn] if self.torn else self.broken


def read_whole_lines(path: Path, kind: type[R]) -> tuple[list[R], list[str]]:
    """Return the lines that are such records, and a complaint for each other line."""
    lines = read_lines(path, kind.model_validate_json, "not an episode")
    return lines.found, lines.complaints


def each_once(items: Iterable[T], key: Callable[[T], Hashable]) -> Iterator[T]:
    """Yield the first item of each key, since two writers of a folder may have left duplicates."""
    known: set[Hashable] = set()
    for item in items:
        if (item_key := key(item)) not in known:
            known.add(item_key)
            yield item


def read_lines(path: Path, parse: Callable[[bytes], T], refused: str) -> Lines[T]:
    """Parse each line; return the items, and a complaint for each line that `parse` rejects.

    `parse` rejects a line by `ValueError`, `KeyError` or `TypeError`; `refused` says what the line
    is not.

    Raises:
        RecordError: the file cannot be read.
    """
    lines, is_torn = whole_lines(path)
    items, broken = [], []
    for number, line in enumerate(lines, start=1):
        try:
            items.append(parse(line))
        except (ValueError, KeyError, TypeError) as error:
            reason = faults(error)[0] if isinstance(error, ValidationError) else str(error)
            broken.append(f"{path}, line {number}: {refused}: {reason}")
    torn = f"{path}: the last line was cut off and is skipped" if is_torn else ""
    return Lines(items, broken, torn)
