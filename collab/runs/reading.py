"""Reading files of lines as far as they can be read: they may be cut off or broken."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from collab.runs.log import whole_lines

R = TypeVar("R", bound=BaseModel)
T = TypeVar("T")


def read_whole_lines(path: Path, kind: type[R]) -> tuple[list[R], list[str]]:
    """The lines that are such records, and a complaint for each one that is not."""
    return read_lines(path, kind.model_validate_json, "not an episode")


def read_lines(path: Path, parse: Callable[[bytes], T], refused: str) -> tuple[list[T], list[str]]:
    """What `parse` makes of each line, and a complaint for each line of which it makes nothing.

    A line is refused by `ValueError`, `KeyError` or `TypeError`; `refused` says what it is not.

    Raises:
        RecordError: the file cannot be read.
    """
    lines, is_torn = whole_lines(path)
    found, complaints = [], []
    for number, line in enumerate(lines, start=1):
        try:
            found.append(parse(line))
        except (ValueError, KeyError, TypeError) as error:
            told = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
            complaints.append(f"{path}, line {number}: {refused}: {told}")
    if is_torn:
        complaints.append(f"{path}: the last line was cut off and is passed over")
    return found, complaints
