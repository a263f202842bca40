"""Costs of what a template does, in characters, and the limit of one rendering."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import (
    Callable,
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    Sequence,
    Sized,
    ValuesView,
)
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from math import prod
from types import MappingProxyType
from typing import Any

from jinja2.exceptions import SecurityError
from jinja2.runtime import LoopContext
from jinja2.utils import Namespace

MOST_COST = 20_000_000
"""Characters that one rendering may handle."""
STEP_COST = 50
"""Characters that one step counts as."""
OF_SOURCE, OF_TOKEN, OF_NESTED, OF_NAME = 5, 500, 10, 5
"""Costs of compiling: of a character, of a token, of a node per block around it, and of a name per
statement."""
HUGE, OF_HUGE, OF_TUPLE = 2**60, 5_000, 3_000
"""Integers from `HUGE` on can be made to collide as keys, and so can ranges and tuples of more than
strings. Each counts as `OF_HUGE` or `OF_TUPLE` characters."""


class Overrun(Exception):
    """A template exceeds the cost of a rendering."""


_LEFT: ContextVar[list[int]] = ContextVar("left")


@contextmanager
def bounded() -> Iterator[None]:
    """Context manager that bounds the compiling and rendering of `BoundedEnvironment` templates.

    Raises:
        Overrun: a template exceeds the bounds.
    """
    token = _LEFT.set([MOST_COST])
    try:
        yield
    finally:
        _LEFT.reset(token)


def charge(cost: int) -> None:
    left = _LEFT.get()
    left[0] -= cost
    if left[0] < 0:
        raise Overrun(
            f"the template handles more than {MOST_COST:,} characters, where each step counts as"
            f" {STEP_COST}; shorten its loops, repetitions and strings"
        )


_TEXTS = (str, bytes)


def weight_of(value: Any) -> int:
    """Return the cost of a value in characters, including its content. Counting stops above
    MOST_COST."""
    if isinstance(value, _TEXTS):
        return STEP_COST + len(value)
    total, waiting = 0, [value]
    while waiting and total <= MOST_COST:
        value = waiting.pop()
        total += STEP_COST
        if isinstance(value, _TEXTS):
            total += len(value)
        elif isinstance(value, int):
            total += value.bit_length() // 8 + (OF_HUGE if abs(value) >= HUGE else 0)
        elif isinstance(value, range):
            largest = max(abs(value.start), abs(value.stop))
            total += OF_TUPLE + len(value) * (OF_HUGE if largest >= HUGE else STEP_COST)
        elif inner := held_in(value):
            total += len(inner)
            if isinstance(value, tuple) and not all(isinstance(held, _TEXTS) for held in inner):
                total += OF_TUPLE
            waiting += inner if total <= MOST_COST else ()
    return total


class OneShot(Iterator[Any]):
    """Computed values that act as a generator: always true, without a length, iterated once."""

    def __init__(self, values: Iterable[Any]) -> None:
        self.values = deque(values)

    def __next__(self) -> Any:
        if not self.values:
            raise StopIteration
        return self.values.popleft()

    def __repr__(self) -> str:
        raise SecurityError("a template cannot print an iterator; make it a list: ... | list")


def held_in(value: Any) -> Sequence[Any]:
    if isinstance(value, Namespace):
        value = value._Namespace__attrs
    elif isinstance(value, OneShot):
        value = value.values
    elif isinstance(value, LoopContext):
        return (value._iterable,)
    if isinstance(value, dict | MappingProxyType):
        return [*value.keys(), *value.values()]
    if isinstance(value, list | tuple):
        return value
    if isinstance(value, set | frozenset | deque | KeysView | ValuesView | ItemsView):
        return [*value]
    return ()


def weighed(value: Any) -> Any:
    """Return `value`, after charging its cost to the current rendering."""
    charge(STEP_COST + len(value) if type(value) is str else weight_of(value))
    return value


def _size(value: Any) -> int:
    """Return the cost of an argument: a number's value, or the length of anything else."""
    return abs(value) if isinstance(value, int) else weight_of(value) - STEP_COST


def numbers_in(text: str) -> int:
    """Return an upper bound for the widths in a format string: the sum of its numbers.

    A number of more than 15 digits counts as 10**15, which exceeds every limit.
    """
    numbers = (digits.lstrip("0") for digits in re.findall(r"\d+", text))
    return sum(int(digits or 0) if len(digits) <= 15 else 10**15 for digits in numbers)


def _by_width(*values: Any) -> int:
    return STEP_COST * sum(map(_size, values))


def _by_product(*values: Any) -> int:
    return prod(1 + _size(value) for value in values)


def _by_characters(*values: Any) -> int:
    """Return the cost of making a value per character."""
    return 4 * sum(map(weight_of, values))


def _by_items(values: Any, *options: Any) -> int:
    """Return the cost of handling each item in Python; options may hold a path to its attribute."""
    path = sum(len(option) for option in options if isinstance(option, str))
    return (5 * STEP_COST + path) * len(values) if isinstance(values, Sized) else 0


def _by_comparisons(values: Any, *options: Any) -> int:
    """Return the cost of sorting, which compares each item with several others."""
    held = held_in(values)
    nested = sum(weight_of(value) for value in held if held_in(value))
    return _by_items(values, *options) + len(held).bit_length() * nested


def _by_square(*values: Any) -> int:
    return sum(map(weight_of, values)) ** 2 // 400


def _by_words(share: int, text: Any, *options: Any) -> int:
    """Return the cost of handling each word in Python, where an option may follow each. A word also
    costs a `share` of the square of its length."""
    weight = weight_of(text)
    cost = weight * (20 + sum(weight_of(option) - STEP_COST for option in options))
    if cost > MOST_COST or not isinstance(text, str):
        return cost
    longest = max((run.end() - run.start() for run in _RUN.finditer(text)), default=0)
    return cost + weight * longest // share


_RUN = re.compile(r"\s+|\S+")


def _of_codec(text: Any, encoding: Any = "utf-8", *_: Any) -> int:
    """Return the cost of encoding and decoding, which for some codecs is quadratic."""
    return weight_of(text) * (STEP_COST if encoding in _FAST_CODECS else weight_of(text))


_FAST_CODECS = ("utf-8", "utf8", "ascii", "latin-1")


def cost_of_time(text: str) -> int:
    """Return the cost of formatting a time, for which C reserves 256 bytes per character."""
    return 256 * len(text) + numbers_in(text)


def _of_replace(text: Any, old: Any = "", new: Any = "", *_: Any) -> int:
    if not (isinstance(text, str) and isinstance(old, str)):
        return _by_product(text, old, new)
    return text.count(old) * weight_of(new)


def _of_sum(values: Any, *options: Any) -> int:
    holds = any(held_in(option) or isinstance(option, list | tuple) for option in options)
    return weight_of(values) ** 2 if holds else _by_items(values)


def cost_of_format(text: str, *values: Any) -> int:
    """Return the cost of `text % values`, where an asterisk takes its width from the values."""
    widths = sum(_size(inner) for value in values for inner in (value, *held_in(value)))
    return (
        numbers_in(text)
        + text.count("%") * sum(map(weight_of, values))
        + (widths if "*" in text else 0)
    )


_COSTS: dict[str, Callable[..., int]] = {
    **dict.fromkeys(("center", "ljust", "rjust", "zfill", "batch", "slice", "round"), _by_width),
    **dict.fromkeys(("list", "split", "splitlines", "title", "urlencode"), _by_characters),
    **dict.fromkeys(("map", "select", "reject", "selectattr", "rejectattr"), _by_items),
    **dict.fromkeys(("groupby", "sort", "unique", "min", "max", "dictsort"), _by_comparisons),
    **dict.fromkeys(("join", "indent", "expandtabs", "translate", "to_bytes"), _by_product),
    **dict.fromkeys(("strip", "lstrip", "rstrip", "trim"), _by_product),
    **dict.fromkeys(("rfind", "rindex", "rsplit", "rpartition"), _by_product),
    **dict.fromkeys(("striptags", "pprint"), _by_square),
    "urlize": partial(_by_words, 5),
    "wordwrap": partial(_by_words, 500),
    **dict.fromkeys(("encode", "decode"), _of_codec),
    "divisibleby": lambda left, right: cost_of_operator("%", left, right),
    "tojson": lambda *values: 20 * _by_product(*values),
    "replace": _of_replace,
    "sum": _of_sum,
}
"""Cost of filters and methods by name, on top of reading their arguments."""


def cost_of_json(value: Any, *options: Any) -> int:
    """Return the cost of `json.dumps`. `options` may contain an indent and separators."""
    return 5 * weight_of(value) * (1 + sum(map(_breadth, options)))


def _breadth(option: Any) -> int:
    if isinstance(option, list | tuple):
        return sum(map(_breadth, option))
    return len(option) if isinstance(option, _TEXTS) else abs(option or 0)


def charge_call(name: str, values: Sequence[Any], cost: Callable[..., int] | None = None) -> None:
    """Charge a call for its arguments, and for what a function of that `name` does with them."""
    total = STEP_COST
    for value in values:
        total += STEP_COST + len(value) if type(value) is str else weight_of(value)
    charge(total)
    if cost := cost or _COSTS.get(name):
        charge(cost(*values))


def cost_of_operator(operator: str, left: Any, right: Any) -> int:
    """Return the cost of an operator between two values."""
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
