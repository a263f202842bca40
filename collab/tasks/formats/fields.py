"""Reads the fields of a published row, and writes docstrings for prompts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from collab.errors import TaskError, nearest

T = TypeVar("T")


def field(row: Mapping[str, Any], kind: type[T], *names: str) -> T:
    """Return the value of the first of the fields `names` that the row has.

    Raises:
        TaskError: the row has none of these fields, or a field has another type.
    """
    for name in names:
        if row.get(name) is not None:
            if not isinstance(row[name], kind):
                actual = type(row[name]).__name__
                raise TaskError(f"the field '{name}' is of type {actual}, not {kind.__name__}")
            return row[name]  # type: ignore[no-any-return]
    close = nearest(names[0], [name for name in row if name not in names])
    remedy = f"did you mean '{close}'?" if close else f"fields: {', '.join(row)}"
    raise TaskError(f"the field '{' or '.join(names)}' is missing; {remedy}")


def docstring(text: str) -> str:
    """Return the text as a function's docstring, with safe quotes and backslashes."""
    safe = text.replace("\\", "\\\\").replace('"""', "'''")
    end = ' """' if safe.endswith('"') else '"""'
    return f'    """{safe}{end}\n'
