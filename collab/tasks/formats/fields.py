"""Reads the fields of a published row, and writes docstrings for prompts."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from collab.errors import TaskError, nearest_name
from collab.syntax import parse

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
    others = [name for name in row if name not in names]
    remedy = suggest_field(names[0], others, row)
    raise TaskError(f"the field '{' or '.join(names)}' is missing; {remedy}")


def tree_of(source: str, what: str) -> ast.Module:
    """Return the syntax tree of a program. Errors call it `what`.

    Raises:
        TaskError: the program does not parse.
    """
    try:
        return parse(source)
    except SyntaxError as error:
        raise TaskError(f"{what} does not parse: {error.msg}") from error


def suggest_field(missing: str, similar: Iterable[str], fields: Iterable[str]) -> str:
    """Return the end of a message about a missing field: a name like it, or the row's fields."""
    close = nearest_name(missing, similar)
    return f"did you mean '{close}'?" if close else f"fields: {', '.join(fields)}"


def docstring(text: str) -> str:
    """Return the text as a function's docstring, with safe quotes and backslashes."""
    safe = text.replace("\\", "\\\\").replace('"""', "'''")
    end = ' """' if safe.endswith('"') else '"""'
    return f'    """{safe}{end}\n'
