"""The budget of one template rendering, and the cost of each operation.

A rendering may handle so many characters; each step of a loop, call and value counts as a few of
them. They are charged before the work is done, so that no single operation runs away: an operator,
filter or method whose result can be larger than its operands is charged by the size of its result.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, ItemsView, Iterator, KeysView, Sequence, Sized, ValuesView
from contextlib import contextmanager
from contextvars import ContextVar
from math import prod
from typing import Any

from jinja2.utils import Namespace

MOST = 20_000_000
"""Characters that one rendering may handle."""
STEP = 50
"""Characters that a step counts as."""


class Overrun(Exception):
    """A template takes more than a rendering may."""


_LEFT: ContextVar[list[int]] = ContextVar("left")


@contextmanager
def bounded() -> Iterator[None]:
    """While entered, templates of a `BoundedEnvironment` are compiled and rendered within bounds.

    Raises:
        Overrun: one takes more.
    """
    token = _LEFT.set([MOST])
    try:
        yield
    finally:
        _LEFT.reset(token)


def charge(cost: int) -> None:
    left = _LEFT.get()
    left[0] -= cost
    if left[0] < 0:
        raise Overrun(
            f"the template handles more than {MOST:,} characters, of which each step counts as"
            f" {STEP}; shorten its loops, repetitions and texts"
        )


_TEXTS = (str, bytes)


def weight_of(value: Any) -> int:
    """The characters that a value counts as, with all that it holds; more than MOST is as good."""
    if isinstance(value, _TEXTS):
        return STEP + len(value)
    total, waiting = 0, [value]
    while waiting and total <= MOST:
        value = waiting.pop()
        total += STEP
        if isinstance(value, _TEXTS):
            total += len(value)
        elif isinstance(value, int):
            total += value.bit_length() // 8
        elif isinstance(value, range):
            total += STEP * len(value)
        elif inner := _held_in(value):
            total += len(inner)
            waiting += inner if total <= MOST else ()
    return total


def _held_in(value: Any) -> Sequence[Any]:
    if isinstance(value, Namespace):
        value = value._Namespace__attrs
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, set | frozenset | deque | KeysView | ValuesView | ItemsView):
        return [*value]
    return ()


def weighed(value: Any) -> Any:
    """The value, once its characters are charged."""
    charge(STEP + len(value) if type(value) is str else weight_of(value))
    return value


def _size(value: Any) -> int:
    """Weigh an argument: a number by its value, anything else by its length."""
    return abs(value) if isinstance(value, int) else weight_of(value) - STEP


def numbers_in(text: str) -> int:
    """The sum of the numbers in a format, any of which may be a width."""
    return sum(map(int, re.findall(r"\d{1,15}", text)))


def _by_width(*values: Any) -> int:
    return STEP * sum(map(_size, values))


def _by_product(*values: Any) -> int:
    return prod(1 + _size(value) for value in values)


def _by_indent(*values: Any) -> int:
    return 20 * _by_product(*values)


def _by_characters(*values: Any) -> int:
    """Cost of making a value per character."""
    return 4 * sum(map(weight_of, values))


def _by_items(values: Any, *_: Any) -> int:
    """Cost of handling each item in Python."""
    return 5 * STEP * len(values) if isinstance(values, Sized) else 0


def _by_square(*values: Any) -> int:
    return sum(map(weight_of, values)) ** 2 // 1000


def _of_replace(text: Any, old: Any = "", new: Any = "", *_: Any) -> int:
    if not (isinstance(text, str) and isinstance(old, str)):
        return _by_product(text, old, new)
    return text.count(old) * weight_of(new)


def _of_sum(values: Any, *options: Any) -> int:
    holds = any(_held_in(option) or isinstance(option, list | tuple) for option in options)
    return weight_of(values) ** 2 if holds else _by_items(values)


def cost_of_format(text: str, *values: Any) -> int:
    """Cost of `text % values`; an asterisk takes its width from the values."""
    widths = sum(_size(inner) for value in values for inner in (value, *_held_in(value)))
    return (
        numbers_in(text)
        + text.count("%") * sum(map(weight_of, values))
        + (widths if "*" in text else 0)
    )


_COSTS: dict[str, Callable[..., int]] = {
    **dict.fromkeys(("center", "ljust", "rjust", "zfill", "batch", "slice", "round"), _by_width),
    **dict.fromkeys(("list", "split", "splitlines", "title"), _by_characters),
    **dict.fromkeys(("map", "select", "reject", "selectattr", "rejectattr"), _by_items),
    **dict.fromkeys(("groupby", "sort", "unique", "min", "max", "dictsort"), _by_items),
    **dict.fromkeys(("join", "indent", "expandtabs", "translate", "to_bytes"), _by_product),
    **dict.fromkeys(("strip", "lstrip", "rstrip", "trim"), _by_product),
    **dict.fromkeys(("rfind", "rindex", "rsplit", "rpartition"), _by_product),
    **dict.fromkeys(("striptags", "urlize", "wordwrap", "pprint", "encode"), _by_square),
    "tojson": _by_indent,
    "replace": _of_replace,
    "sum": _of_sum,
}
"""Cost of filters and methods by name, on top of reading their arguments."""


def charge_call(name: str, values: Sequence[Any]) -> None:
    total = STEP
    for value in values:
        total += STEP + len(value) if type(value) is str else weight_of(value)
    charge(total)
    if name in _COSTS:
        charge(_COSTS[name](*values))


def cost_of_operator(operator: str, left: Any, right: Any) -> int:
    """Cost of an operator between two values."""
    if isinstance(left, int) and isinstance(right, int):
        if operator == "**":
            return int((1 + left.bit_length() * max(right, 0) // 30) ** 2)
        return (1 + left.bit_length() // 30) * (1 + right.bit_length() // 30)
    if operator == "%" and isinstance(left, _TEXTS):
        text = left if isinstance(left, str) else left.decode("latin-1")
        return weight_of(left) + cost_of_format(text, right)
    if operator == "*" and isinstance(left, int):
        left, right = right, left
    if operator == "*" and isinstance(right, int) and not isinstance(left, float):
        return (1 + abs(right)) * weight_of(left)
    return weight_of(left) + weight_of(right)
