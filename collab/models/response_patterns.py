"""Limits parsing by a model's response template, whose author may be anyone.

transformers searches with the template's regular expressions until nothing is left to find. Both
one search and the number of searches may have no end. An expression may also need any amount of
memory, because `regex` compiles a copy of a group per required repetition.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial
from math import prod
from typing import Any

PARSE_SECONDS = 1.0
"""Time to parse one response."""
MAX_CHARACTERS, MAX_GROUPS = 1_000, 50
"""Limits of a regular expression: its length, and its groups and character classes."""
MAX_COPIED_CHARACTERS = 100_000
"""Limit of an expression's length times the copies that its repetitions make."""
_REQUIRED_COUNT = re.compile(r"\{([0-9]+)")
_FORBIDDEN_GROUP = re.compile(r"\(\?(?:[\w-]*x|R|P>|[&+#0-9]|-[0-9])")
"""Groups that call groups, and comments and the verbose mode, which may hide a repetition."""

_deadline: ContextVar[float | None] = ContextVar("_deadline", default=None)


@contextmanager
def parsing_limits() -> Iterator[None]:
    """Let transformers parse one response, and raise TimeoutError beyond the time limit."""
    _patch_transformers()
    token = _deadline.set(time.monotonic() + PARSE_SECONDS)
    try:
        yield
    finally:
        _deadline.reset(token)


class _TimedPattern:
    """An expression of the module `regex` whose searches end at the deadline."""

    def __init__(self, untimed: Any) -> None:
        self._untimed = untimed

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._untimed, name)
        return partial(_search, value) if name in {"search", "finditer", "sub"} else value


class _TimedModule(_TimedPattern):
    """The module `regex`, with a deadline for its functions and bounds for their expressions."""

    def compile(self, pattern: str, *args: Any) -> _TimedPattern:
        _time_left()
        _check_pattern(pattern)
        return _TimedPattern(self._untimed.compile(pattern, *args))

    def finditer(self, pattern: str, text: str, flags: int) -> Any:
        return self.compile(pattern, flags).finditer(text)

    def sub(self, pattern: str, new: Any, text: str, flags: int = 0) -> Any:
        return self.compile(pattern, flags).sub(new, text)


def _check_pattern(pattern: str) -> None:
    """Raise ValueError for an expression that may be slow or large to compile.

    Brackets and numbers also count where they have no special meaning. A repeated group is copied
    for each required repetition and once more for optional ones.
    """
    copies = 2 ** pattern.count(")+") * prod(int(n) + 1 for n in _REQUIRED_COUNT.findall(pattern))
    groups = pattern.count("(") + pattern.count("[")
    is_large = len(pattern) > MAX_CHARACTERS or groups > MAX_GROUPS
    if is_large or len(pattern) * copies > MAX_COPIED_CHARACTERS:
        raise ValueError("a regular expression of the response template is too large")
    if _FORBIDDEN_GROUP.search(pattern):
        raise ValueError("a regular expression of the response template calls its own groups")


def _time_left() -> float | None:
    ends = _deadline.get()
    if ends is None:
        return None
    if (left := ends - time.monotonic()) <= 0:
        raise TimeoutError("the response template takes too long")
    return left


def _search(search: Any, *args: Any, **options: Any) -> Any:
    return search(*args, **options, timeout=_time_left())


@cache
def _patch_transformers() -> None:
    from transformers.utils.chat_parsing import content_parsers, response_templates

    modules: list[Any] = [content_parsers, response_templates]
    for module in modules:
        module.re = _TimedModule(module.re)
