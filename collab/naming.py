"""Names of teams, suites, agents and runs. Only a suite's may contain a slash."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain, count
from pathlib import PurePath
from typing import Annotated

from pydantic import AfterValidator

MAX_NAME_BYTES = 100
"""Maximum number of bytes in a name. A folder's name can have 255, and some add a date or a number.
"""

MAX_JOINED_NAMES = 3
"""Maximum number of names in a joint name. A number replaces the others."""


def is_name(text: str) -> bool:
    """Return True if a string is a valid name, and so a safe name of a file or folder.

    A name has letters, digits, `.`, `_`, `+` and `-`, and at most `MAX_NAME_BYTES` bytes. It begins
    with none of `.`, `+` and `-`, and does not end with `.`.
    """
    return (
        bool(text)
        and all(map(_is_allowed, text))
        and text[0] not in ".+-"
        and text[-1] != "."
        and len(text.encode()) <= MAX_NAME_BYTES
    )


def as_name(text: str) -> str:
    """Return the valid name nearest to a string, or "" if no letter is left."""
    plain = "-".join("".join(letter if _is_allowed(letter) else " " for letter in text).split())
    cut = plain.lstrip(".+-").encode()[:MAX_NAME_BYTES].decode(errors="ignore")
    return cut.rstrip(".")


def joint_name(names: Iterable[object]) -> str:
    """Join several names to one of limited length, e.g. `aux+main`, `a+b+c+5`."""
    plain = [as_name(str(name)) or "-" for name in names]
    more = [str(len(plain) - MAX_JOINED_NAMES)] if len(plain) > MAX_JOINED_NAMES else []
    return as_name("+".join([*plain[:MAX_JOINED_NAMES], *more]))


def find_free_name(name: str, is_taken: Callable[[str], bool], separator: str = "-") -> str:
    """Return `name`, or the first free one of `name-2`, `name-3` and so on if it is taken."""
    names = chain([name], (f"{name}{separator}{number}" for number in count(2)))
    return next(free for free in names if not is_taken(free))


def _is_allowed(letter: str) -> bool:
    return letter in ".+-" or f"_{letter}".isidentifier()


def _check_name(text: str) -> str:
    if text and not is_name(text):
        raise ValueError(_INVALID_NAME.format(text))
    return text


def _check_suite_name(text: str) -> str:
    if text and not (all(map(is_name, text.split("/"))) and len(text.encode()) <= MAX_NAME_BYTES):
        raise ValueError(_INVALID_NAME.format(text))
    return text


def _check_folder_name(text: str) -> str:
    if "\0" in text or text in ("", ".", "..") or PurePath(text).name != text:
        raise ValueError(
            f"{text!r:.60} is not a folder name; use one name without '/', other than '.' and '..'"
        )
    return text


_INVALID_NAME = (
    "{0!r:.60} is not a name; use letters, digits and '.', '_', '+' or '-' after the first one, no"
    f" '.' at the end, and at most {MAX_NAME_BYTES} bytes"
)

Name = Annotated[str, AfterValidator(_check_name)]
"""A name, or "" for none."""

SuiteName = Annotated[str, AfterValidator(_check_suite_name)]
"""A suite's name, with members of a family as `FAMILY/NAME`, or "" for none."""

FolderName = Annotated[str, AfterValidator(_check_folder_name)]
"""Name of one folder within another, as records refer to it."""
