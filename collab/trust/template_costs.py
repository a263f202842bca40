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

MAX_COST = 20_000_000
"""Characters that one rendering may handle."""
STEP_COST = 50
"""Characters that one step counts as."""
CHARACTER_COST, TOKEN_COST, NESTING_COST, NAME_COST = 5, 500, 10, 5
"""Costs of compiling: of a character, of a token, of a node per block around it, and of a name per
statement."""
MIN_COLLIDING_INT = 2**60
"""Integers from here on can be made to collide as keys, and so can ranges and tuples of more than
strings."""
COLLIDING_INT_COST, COLLIDING_TUPLE_COST = 5_000, 3_000


class Overrun(Exception):
    """A template exceeds the cost of a rendering."""


_REMAINING_COST: ContextVar[list[int]] = ContextVar("remaining_cost")


@contextmanager
def bounded() -> Iterator[None]:
    """Context manager that bounds the compiling and rendering of `BoundedEnvironment` templates.

    Raises:
        Overrun: a template exceeds the bounds.
    """
    token = _REMAINING_COST.set([MAX_COST])
    try:
        yield
    finally:
        _REMAINING_COST.reset(token)


def charge(cost: int) -> None:
    left = _REMAINING_COST.get()
    left[0] -= cost
    if left[0] < 0:
        raise Overrun(
            f"the template handles more than {MAX_COST:,} characters, where each step counts as"
            f" {STEP_COST}; shorten its loops, repetitions and strings"
        )


_TEXTS = (str, bytes)


def weight_of(value: Any) -> int:
    """Return the cost of a value in characters, including its content. Counting stops above
    MAX_COST."""
    if isinstance(value, _TEXTS):
        return STEP_COST + len(value)
    total, waiting = 0, [value]
    while waiting and total <= MAX_COST:
        value = waiting.pop()
        total += STEP_COST
        if isinstance(value, _TEXTS):
            total += len(value)
        elif isinstance(value, int):
            collides = abs(value) >= MIN_COLLIDING_INT
            total += value.bit_length() // 8 + COLLIDING_INT_COST * collides
        elif isinstance(value, range):
            collides = max(abs(value.start), abs(value.stop)) >= MIN_COLLIDING_INT
            item_cost = COLLIDING_INT_COST if collides else STEP_COST
            total += COLLIDING_TUPLE_COST + len(value) * item_cost
        elif items := contents_of(value):
            total += len(items)
            if isinstance(value, tuple) and not all(isinstance(item, _TEXTS) for item in items):
                total += COLLIDING_TUPLE_COST
            waiting += items if total <= MAX_COST else ()
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


def contents_of(value: Any) -> Sequence[Any]:
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


def charge_value(value: Any) -> Any:
    """Return `value`, after charging its cost to the current rendering."""
    charge(weight_of(value))
    return value


def _size(value: Any) -> int:
    """Return the cost of an argument: a number's value, or the length of anything else."""
    return abs(value) if isinstance(value, int) else weight_of(value) - STEP_COST


def sum_of_numbers(text: str) -> int:
    """Return an upper bound for the widths in a format string: the sum of its numbers.

    A number of more than 15 digits counts as 10**15, which exceeds every limit.
    """
    numbers = (digits.lstrip("0") for digits in re.findall(r"\d+", text))
    return sum(int(digits or 0) if len(digits) <= 15 else 10**15 for digits in numbers)


def _width_cost(*values: Any) -> int:
    return STEP_COST * sum(map(_size, values))


def _product_cost(*values: Any) -> int:
    return prod(1 + _size(value) for value in values)


def _per_character_cost(*values: Any) -> int:
    """Return the cost of making a value per character."""
    return 4 * sum(map(weight_of, values))


def _per_item_cost(values: Any, *options: Any) -> int:
    """Return the cost of handling each item in Python; options may hold a path to its attribute."""
    path = sum(len(option) for option in options if isinstance(option, str))
    return (5 * STEP_COST + path) * len(values) if isinstance(values, Sized) else 0


def _sorting_cost(values: Any, *options: Any) -> int:
    """Return the cost of sorting, which compares each item with several others."""
    items = contents_of(values)
    nested = sum(weight_of(value) for value in items if contents_of(value))
    return _per_item_cost(values, *options) + len(items).bit_length() * nested


def _quadratic_cost(*values: Any) -> int:
    return sum(map(weight_of, values)) ** 2 // 400


def _per_word_cost(share: int, text: Any, *options: Any) -> int:
    """Return the cost of handling each word in Python, where an option may follow each. On top of
    this, each character costs the length of the longest word, divided by `share`."""
    weight = weight_of(text)
    cost = weight * (20 + sum(weight_of(option) - STEP_COST for option in options))
    if cost > MAX_COST or not isinstance(text, str):
        return cost
    longest = max((run.end() - run.start() for run in _WORD_OR_SPACE.finditer(text)), default=0)
    return cost + weight * longest // share


_WORD_OR_SPACE = re.compile(r"\s+|\S+")


def _codec_cost(text: Any, encoding: Any = "utf-8", *_: Any) -> int:
    """Return the cost of encoding and decoding, which for some codecs is quadratic."""
    return weight_of(text) * (STEP_COST if encoding in _FAST_CODECS else weight_of(text))


_FAST_CODECS = ("utf-8", "utf8", "ascii", "latin-1")


def cost_of_time(text: str) -> int:
    """Return the cost of formatting a time, for which C reserves 256 bytes per character."""
    return 256 * len(text) + sum_of_numbers(text)


def _replace_cost(text: Any, old: Any = "", new: Any = "", *_: Any) -> int:
    if not (isinstance(text, str) and isinstance(old, str)):
        return _product_cost(text, old, new)
    return text.count(old) * weight_of(new)


def _sum_cost(values: Any, *options: Any) -> int:
    adds_containers = any(
        contents_of(option) or isinstance(option, list | tuple) for option in options
    )
    return weight_of(values) ** 2 if adds_containers else _per_item_cost(values)


def cost_of_format(text: str, *values: Any) -> int:
    """Return the cost of `text % values`, where an asterisk takes its width from the values."""
    widths = sum(_size(inner) for value in values for inner in (value, *contents_of(value)))
    return (
        sum_of_numbers(text)
        + text.count("%") * sum(map(weight_of, values))
        + (widths if "*" in text else 0)
    )


_COSTS: dict[str, Callable[..., int]] = {
    **dict.fromkeys(("center", "ljust", "rjust", "zfill", "batch", "slice", "round"), _width_cost),
    **dict.fromkeys(("list", "split", "splitlines", "title", "urlencode"), _per_character_cost),
    **dict.fromkeys(("map", "select", "reject", "selectattr", "rejectattr"), _per_item_cost),
    **dict.fromkeys(("groupby", "sort", "unique", "min", "max", "dictsort"), _sorting_cost),
    **dict.fromkeys(("join", "indent", "expandtabs", "translate", "to_bytes"), _product_cost),
    **dict.fromkeys(("strip", "lstrip", "rstrip", "trim"), _product_cost),
    **dict.fromkeys(("rfind", "rindex", "rsplit", "rpartition"), _product_cost),
    **dict.fromkeys(("striptags", "pprint"), _quadratic_cost),
    "urlize": partial(_per_word_cost, 5),
    "wordwrap": partial(_per_word_cost, 500),
    **dict.fromkeys(("encode", "decode"), _codec_cost),
    "divisibleby": lambda left, right: cost_of_operator("%", left, right),
    "tojson": lambda *values: 20 * _product_cost(*values),
    "replace": _replace_cost,
    "sum": _sum_cost,
}
"""Cost of filters and methods by name, on top of reading their arguments."""


def cost_of_json(value: Any, *options: Any) -> int:
    """Return the cost of `json.dumps`. `options` may contain an indent and separators."""
    return 5 * weight_of(value) * (1 + sum(map(_option_size, options)))


def _option_size(option: Any) -> int:
    if isinstance(option, list | tuple):
        return sum(map(_option_size, option))
    return len(option) if isinstance(option, _TEXTS) else abs(option or 0)


def charge_call(name: str, values: Sequence[Any], cost: Callable[..., int] | None = None) -> None:
    """Charge a call for its arguments, and for what a function of that `name` does with them."""
    charge(STEP_COST + sum(map(weight_of, values)))
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
