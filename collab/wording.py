"""Small pieces of text for messages: plurals, options, and escapes for control characters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError


def counted(number: int, noun: str) -> str:
    """Format a number with its noun, e.g. `1 step`, `1,024 steps`, `0 new tokens`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_duration(seconds: float) -> str:
    """Format a duration in a suitable unit: `45 s`, `12 min`, `3 h 20 min`."""
    minutes = round(seconds / 60)
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def format_cost(cost: float | None) -> str:
    """Format a cost, e.g. `$0.0042`, or `-` if it is not known."""
    return "-" if cost is None else f"${cost:.4f}"


def format_option(name: str, value: object = "") -> str:
    """Return the name of an option in both interfaces, e.g. `--out FOLDER (in Python: out=)`."""
    shown = f"--{name} {quote(str(value))}" if value else f"--{name}"
    return f"{shown} (in Python: {name.replace('-', '_')}=)"


_PYTHON_REMEDY = re.compile(r"\s\(in Python:\s[^()]*\)")


def drop_python_remedies(message: str) -> str:
    """Return a message without the remedies that work only in Python."""
    return _PYTHON_REMEDY.sub("", message)


_REASON_PATTERNS = (
    (r"^Value error, ", ""),
    (r"^Invalid JSON: ", "not JSON: "),
    (r"^Field required$", "required key is missing"),
    (r"\ba valid dictionary( or instance of \w+)?$", "a mapping"),
    (r"^Input should be ", "must be "),
    (r"^Extra inputs are not permitted$", "unknown key; remove it"),
    (r"^\w+ should have (.*?)( after validation, not .*)?$", r"must have \1"),
    (r", unable to (parse|interpret) .*$", ""),
    (r"\ba valid (integer|array)\b", r"an \1"),
    (r"\ba valid boolean\b", "true or false"),
    (r"\ba valid tuple\b", "a list"),
    (r"\ba valid\b", "a"),
    (r"\bgreater than or equal to\b", "at least"),
    (r"\bless than or equal to\b", "at most"),
)


def plain_reason(message: str) -> str:
    """Return a message of pydantic in plain words, e.g. `must be at least 1`."""
    for pattern, replacement in _REASON_PATTERNS:
        message = re.sub(pattern, replacement, message)
    return message


def explain_read_error(path: object, error: Exception) -> str:
    """Say why a file was not read, e.g. `a.yaml does not exist; check the path`."""
    if isinstance(error, IsADirectoryError):
        return f"{path} is a folder; specify a file"
    if isinstance(error, FileNotFoundError):
        return f"{path} does not exist; check the path (current folder: {Path.cwd()})"
    reason = getattr(error, "strerror", None) or error
    if isinstance(error, UnicodeDecodeError):
        reason = "not UTF-8 text"
    return f"{path}: cannot be read: {reason}"


def list_errors(error: ValidationError) -> list[str]:
    """Return each fault of a pydantic error in plain words, e.g. `team.turns: must be at least
    1`.
    """
    places = ((".".join(map(str, fault["loc"])), fault["msg"]) for fault in error.errors())
    return [f"{place}: " * bool(place) + plain_reason(message) for place, message in places]


def align_rows(rows: Sequence[Sequence[str]], right: Sequence[bool]) -> Iterator[str]:
    """Yield the rows of a table as lines: each column is as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = zip(row, widths, right, strict=True)
        yield "  ".join(f"{text:{'>' if r else '<'}{width}}" for text, width, r in cells).rstrip()


CONTROL_CHARACTERS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f"
    r"\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f]"
)
"""Control characters, direction marks, separators and invisible characters."""


def escape_controls(text: str) -> str:
    """Escape the control characters of a string from a model, server or file, because they could
    change a terminal. Tabs and line feeds stay.
    """
    return CONTROL_CHARACTERS.sub(
        lambda match: match.group().encode("unicode_escape").decode(), text.replace("\r\n", "\n")
    )
