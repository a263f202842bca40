"""Makes other values of the same kind, which a helper could have returned.

Only Python's own types are inspected. No set or dict is made of a program's own objects, and none
is hashed, compared or iterated by its own methods, so a program cannot observe the inspection.
"""

from __future__ import annotations

import collections
import decimal
import fractions
import functools
import marshal
import math
import string
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

DEEPEST = 8
MOST_ITEMS = 10_000
"""Maximum number of items to change in one container."""
_SCALARS: tuple[type, ...] = (type(None), bool, int, float, complex, str, bytes)
_LETTERS = (string.ascii_lowercase, string.ascii_uppercase, string.digits)
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, functools.partial)
_LAZY: tuple[type, ...] = (
    *_FUNCTIONS, types.GeneratorType, map, filter, zip, enumerate, reversed,
    *(type(iter(kind())) for kind in (list, tuple, set, dict, str)),
)  # fmt: skip


_NUMBERS: tuple[type, ...] = (int, float, complex, decimal.Decimal, fractions.Fraction)
_HASHED: tuple[type, ...] = (*_SCALARS, *_NUMBERS, range)
_MAPPINGS = (dict, collections.Counter, collections.OrderedDict, collections.defaultdict)
Each = Callable[[Any, int], Any]
"""Maps an item of a container and its position to the replacement."""


def other(value: Any, seed: int, *, longer: bool = False) -> Any:
    """Return a different value of the same type, which depends on `seed`.

    Equal numbers change in the same way, regardless of type and position. With `longer`, the
    content stays, and lists and strings grow. None and a single boolean are returned unchanged.
    """
    if value is None or type(value) is bool:
        return value
    return _other(value, seed, longer, DEEPEST)


def shorter(value: Any, seed: int) -> Any:
    """Return a list, tuple, text or range without its last items (one for seed 0).

    Other values are returned unchanged.
    """
    if _among(type(value), (list, tuple, str, bytes, range)):
        return value[: max(0, len(value) - 1 - seed)]
    return value


def filled(value: Any, digit: int, depth: int = DEEPEST) -> Any:
    """Return `value` with every number, boolean, letter and key replaced by `digit`, 0 or 1, of the
    same type."""
    kind = type(value)
    if _among(kind, (bool, *_NUMBERS)):
        return kind(digit)
    if kind is str:
        return str(digit) * len(value)
    if _among(kind, (bytes, bytearray)):
        return kind(str(digit).encode() * len(value))
    if depth == 0:
        return value
    return _container(value, lambda item, _: filled(item, digit, depth - 1), keys=True)


def emptied(value: Any, depth: int = DEEPEST) -> Any:
    """Return `value` without items in its lists, strings and tables.

    Other values are returned unchanged.
    """
    kind = type(value)
    if _among(kind, (list, tuple, str, bytes, bytearray, set, frozenset, collections.deque)):
        return kind()
    if kind is range:
        return range(0)
    if _among(kind, _MAPPINGS):
        return collections.defaultdict(value.default_factory) if kind is _MAPPINGS[3] else kind()
    if _among(kind, _LAZY) and not _among(kind, _FUNCTIONS):
        return iter(())
    return value if depth == 0 else _container(value, lambda item, _: emptied(item, depth - 1))


def copied(value: Any, depth: int = DEEPEST) -> Any:
    """Return a copy that is equal but not identical where possible, nested to `depth`.

    Enum members are returned as they are, because a program may test their identity.
    """
    kind = type(value)
    if _among(kind, (int, float, complex)):
        negative = -value
        return -negative
    if _among(kind, (str, bytes)):
        return value[:1] + value[1:]
    if _among(kind, (bytearray, range)):
        return value[:]
    if kind is types.FunctionType:
        return _function_again(value)
    if depth == 0 or _among(kind, (*_SCALARS, *_LAZY)) or _has(kind, "_member_map_"):
        return value
    return _container(value, lambda item, _: copied(item, depth - 1))


def _function_again(function: types.FunctionType) -> types.FunctionType:
    again = types.FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    functools.update_wrapper(again, function)
    del again.__wrapped__  # type: ignore[attr-defined]
    again.__kwdefaults__ = function.__kwdefaults__
    return again


def shape(value: Any) -> bytes | None:
    """Return bytes that are the same for equal values, including those of a program's classes.

    Return None if a value cannot be converted.
    """
    try:
        return marshal.dumps(_shape(value, DEEPEST), 0)
    except (ValueError, MemoryError):
        return None


def _shape(value: Any, depth: int) -> Any:
    kind = type(value)
    if _among(kind, (bool, *_NUMBERS)):
        return _ratio(value)
    if depth == 0 or _among(kind, (*_SCALARS, bytearray)):
        return value
    if _among(kind, _MAPPINGS):
        pairs = [marshal.dumps(_shape(pair, depth - 1), 0) for pair in dict.items(value)]
        return ["dict", sorted(pairs)]
    if _among(kind, (set, frozenset)):
        return ["set", sorted(marshal.dumps(_shape(item, depth - 1), 0) for item in value)]
    for base in (list, tuple, set, frozenset, collections.deque, dict):
        if issubclass(kind, base):
            items: Any = dict.items(value) if base is dict else base.__iter__(value)
            break
    else:
        fields = _fields(value)
        if fields is None:
            raise ValueError
        items = fields.items()
    return [id(kind), [_shape(item, depth - 1) for item in items]]


def _ratio(number: Any) -> Any:
    """Return a value that is the same for equal numbers of every type."""
    if type(number) is complex:
        return _ratio(number.real) if number.imag == 0 else number
    try:
        return number.as_integer_ratio()
    except (OverflowError, ValueError):
        return float(number)


def _other(value: Any, seed: int, longer: bool, depth: int, place: int = 0) -> Any:
    kind = type(value)
    if kind is bool or _among(kind, _NUMBERS):
        return value if longer else _number(value, seed, place)
    if kind is str:
        return _text(value, seed, longer)
    if _among(kind, (bytes, bytearray)):
        return kind(_text(value.decode("latin-1"), seed, longer), "latin-1")
    if kind is range:
        return range(value.start, value.stop + (seed + 1) * value.step, value.step)
    if depth == 0 or value is None:
        return value

    def change(item: Any, place: int) -> Any:
        return _other(item, seed, longer, depth - 1, place) if place < MOST_ITEMS else item

    changed = _container(value, change)
    if longer and _among(kind, (list, collections.deque)):
        changed.extend((list(changed)[-1:] or [0]) * (seed + 1))
    if longer and _among(kind, (set, frozenset)) and changed is not value:
        changed = kind([*value, *_other(value, seed, False, depth)])
    return changed


def _container(value: Any, change: Each, *, keys: bool = False) -> Any:
    """Return `value` with other items, attributes and results, also `keys`. Opaque values stay."""
    kind = type(value)

    def each(items: Iterable[Any]) -> list[Any]:
        return [change(item, place) for place, item in enumerate(items)]

    if _among(kind, (list, collections.deque)):
        return kind(each(value))
    if kind is tuple or (issubclass(kind, tuple) and _has(kind, "_fields")):
        return tuple.__new__(kind, each(tuple.__iter__(value)))
    if _among(kind, (set, frozenset)):
        return kind(each(value)) if all(map(_hashed, value)) else value
    if _among(kind, _MAPPINGS):
        return _table(value, each, keys) if all(map(_hashed, value)) else value
    return _lazy(value, change) if _among(kind, _LAZY) else _instance(value, each)


def _lazy(value: Any, change: Each) -> Any:
    """Return an iterator or a function that changes its values when they are produced."""
    if _among(type(value), _FUNCTIONS):
        return lambda *args, **options: change(value(*args, **options), 0)
    return (change(item, place) for place, item in enumerate(value))


def _table(value: Any, each: Callable[[Iterable[Any]], list[Any]], keys: bool) -> Any:
    copy = value.copy()
    if keys:
        copy.clear()
    dict.update(copy, zip(each(value) if keys else value, each(value.values()), strict=True))
    return copy


def _hashed(value: Any) -> bool:
    """Return True if hashing or comparing `value` runs no method of a program."""
    if _among(type(value), (tuple, frozenset)):
        return all(map(_hashed, value))
    return _among(type(value), _HASHED)


def _among(kind: type, kinds: Iterable[type]) -> bool:
    """Return True if it is one of these, without using a program's metaclass."""
    return any(kind is one for one in kinds)


def _number(value: Any, seed: int, place: int) -> Any:
    """Return a number larger by 1 to 3, so that an index or a count may stay valid."""
    if type(value) is bool:
        return value if (seed + place) % 2 else not value
    try:
        whole = math.floor(value.real if type(value) is complex else value)
    except (OverflowError, ValueError):  # for infinity and NaN
        whole = 0
    return value + 1 + (whole + seed) % 3


def _text(text: str, seed: int, longer: bool) -> str:
    """Shift letters and digits, so that a number stays a number and a name a name."""
    by = seed % 8 + 1
    table = {ord(c): kind[(i + by) % len(kind)] for kind in _LETTERS for i, c in enumerate(kind)}
    changed = text if longer else text.translate(table)
    if changed == text and not longer:
        changed = text[by:] + text[:by]
    return changed + (changed[-1:] or "~") * by if changed == text else changed


def _instance(value: Any, each: Callable[[Iterable[Any]], list[Any]]) -> Any:
    """Return an instance of the program's own class, with other attributes."""
    fields = _fields(value)
    if fields is None or _has(type(value), "__del__"):
        return value
    try:
        copy = object.__new__(type(value))
    except TypeError:
        return value
    copied = _fields(copy)
    if copied is None:
        return value
    copied.update(zip(fields, each(fields.values()), strict=True))
    return copy


def _fields(value: Any) -> dict[str, Any] | None:
    """Return the attributes of an object that no code of its class intercepts."""
    attributes = next(
        (space["__dict__"] for space in _spaces(type(value)) if "__dict__" in space), None
    )
    if type(attributes) is not types.GetSetDescriptorType:
        return None
    fields = attributes.__get__(value)
    plain = type(fields) is dict and all(type(name) is str for name in fields)
    return fields if plain else None


def _has(kind: type, name: str) -> bool:
    return any(name in space for space in _spaces(kind))


def _spaces(kind: type) -> Iterator[Any]:
    """Yield the namespaces of a class and its bases, without using its metaclass."""
    for one in type.__dict__["__mro__"].__get__(kind):
        yield type.__dict__["__dict__"].__get__(one)
