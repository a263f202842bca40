"""JSON read strictly: what Python's reader would lose or bend is an error."""

from __future__ import annotations

import json
import math
from typing import Any


def parse(text: str) -> Any:
    """The value that a JSON text of a user's stands for.

    Raises:
        ValueError: as `parse_whole`. Beyond that, these are errors: a key that stands twice in one
            object, `NaN` and `Infinity`, and a number beyond the range of a float.
    """
    try:
        return parse_whole(
            text, object_pairs_hook=_object, parse_constant=_constant, parse_float=_number
        )
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if "\n" in text.strip() else ""
        raise ValueError(f"{error.msg} at {line}column {error.colno}") from None


def parse_whole(text: str | bytes, **hooks: Any) -> Any:
    """The value that a JSON text stands for, as Python reads it; `hooks` are of `json.loads`.

    Raises:
        ValueError: it is not JSON, is nested too deeply, or holds a number of too many digits or
            half of a surrogate pair.
    """
    try:
        value = json.loads(text, **hooks)
        if (b"\\ud" if isinstance(text, bytes) else "\\ud") in text.lower():  # type: ignore[operator]
            _check_surrogates(value)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key '{twice}' stands twice in one object")
    return found


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value; write null where there is no number")


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text:.40} is beyond the range of a float")
    return number


def _check_surrogates(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise ValueError(f"\\u{ord(half):04x} is half of a surrogate pair") from None
