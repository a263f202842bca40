"""Sets a time limit on parsing by a model's response template, whose author may be anyone.

transformers searches with the template's regular expressions until nothing is left to find. Both
one search and the number of searches may have no end.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial
from typing import Any

SECONDS = 1.0
"""Time to parse one response."""

_deadline: ContextVar[float | None] = ContextVar("_deadline", default=None)


@contextmanager
def limited() -> Iterator[None]:
    """Let transformers parse one response within the time limit.

    Raises:
        TimeoutError: parsing took longer.
    """
    _patch()
    token = _deadline.set(time.monotonic() + SECONDS)
    try:
        yield
    finally:
        _deadline.reset(token)


class _Timed:
    """The module `regex`, or an expression of it, whose searches end at the deadline."""

    def __init__(self, untimed: Any) -> None:
        self._untimed = untimed

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._untimed, name)
        return partial(_search, value) if name in {"search", "finditer", "sub"} else value

    def compile(self, *args: Any, **options: Any) -> _Timed:
        return _Timed(self._untimed.compile(*args, **options))


def _search(search: Any, *args: Any, **options: Any) -> Any:
    ends = _deadline.get()
    if ends is None:
        return search(*args, **options)
    left = ends - time.monotonic()
    if left <= 0:
        raise TimeoutError("the response template takes too long")
    return search(*args, **options, timeout=left)


@cache
def _patch() -> None:
    from transformers.utils.chat_parsing import content_parsers, response_templates

    modules: list[Any] = [content_parsers, response_templates]
    for module in modules:
        module.re = _Timed(module.re)
