"""A hidden test of one assert for each published case of a problem."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from collab.errors import TaskError

_SAME_TEXT = """\
from decimal import Decimal, InvalidOperation


def same_output(printed, expected):
    lines = [[line.strip() for line in text.strip().split("\\n")] for text in (printed, expected)]
    if len(lines[0]) != len(lines[1]):
        return False
    return all(map(same_line, *lines))


def same_line(one, other):
    if one == other:
        return True
    try:
        numbers = [[Decimal(word) for word in line.split()] for line in (one, other)]
    except InvalidOperation:
        return False
    return numbers[0] == numbers[1]
"""
_SAME_VALUE = """\
def same_value(value, expected):
    return (list(value) if type(value) is tuple else value) == expected
"""


def check_printed(cases: Iterable[tuple[Any, Any]]) -> str:
    """The test of what is printed: for each case what there is to read, and what is to be printed.

    As LiveCodeBench compares: white space around the text and around each line aside, each line is
    the same, or has the same numbers.

    Raises:
        TaskError: there is no case.
    """
    texts = [(_text(given), _text(printed)) for given, printed in cases]
    asserts = [f"assert same_output(candidate({i!r}), {o!r})" for i, o in texts]
    return _check(_SAME_TEXT, asserts)


def check_values(cases: Iterable[tuple[list[Any], Any]]) -> str:
    """The test of a function: for each case its arguments, and its value; a tuple may be a list.

    Raises:
        TaskError: there is no case.
    """
    asserts = [f"assert same_value(candidate(*{i!r}), {o!r})" for i, o in cases]
    return _check(_SAME_VALUE, asserts)


def _check(given: str, asserts: list[str]) -> str:
    if not asserts:
        raise TaskError("the problem has no test cases")
    check = "\n    ".join(["def check(candidate):", *asserts])
    return f"{given}\n\n{check}\n"


def _text(told: Any) -> str:
    """A case's input or output, which some rows give as a list of lines."""
    return "\n".join(map(str, told)) if isinstance(told, list) else str(told)
