"""Makes other values of the same kind, which a helper could have returned.

Only Python's own types are inspected. No set or dict is made of a program's own objects, and none
is hashed, compared or iterated by its own methods. So a program cannot observe the inspection.
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

MAX_DEPTH = 8
MAX_ITEMS = 10_000
"""Maximum number of items to change in one container."""
_SCALAR_TYPES: tuple[type, ...] = (type(None), bool, int, float, complex, str, bytes)
_LETTERS = (string.ascii_lowercase, string.ascii_uppercase, string.digits)
_FUNCTION_TYPES = (types.FunctionType, types.BuiltinFunctionType, functools.partial)
_LAZY_TYPES: tuple[type, ...] = (
    *_FUNCTION_TYPES, types.GeneratorType, map, filter, zip, enumerate, reversed,
    *(type(iter(kind())) for kind in (list, tuple, set, dict, str)),
)  # fmt: skip


_NUMBER_TYPES: tuple[type, ...] = (int, float, complex, decimal.Decimal, fractions.Fraction)
_HASHABLE_TYPES: tuple[type, ...] = (*_SCALAR_TYPES, *_NUMBER_TYPES, range)
_MAPPING_TYPES = (dict, collections.Counter, collections.OrderedDict, collections.defaultdict)
ChangeItem = Callable[[Any, int], Any]
"""Maps an item of a container and its position to the replacement."""


def change_value(value: Any, seed: int, *, longer: bool = False) -> Any:
    """Return a different value of the same type, which depends on `seed`.

    Equal numbers change in the same way, regardless of type and position. With `longer`, the
    content stays, and lists and strings grow. None and a single boolean are returned unchanged.
    """
    if value is None or type(value) is bool:
        return value
    return _change_nested(value, seed, longer, MAX_DEPTH)


def shorten_value(value: Any, seed: int) -> Any:
    """Return a list, tuple, text or range without its last items (one for seed 0).

    Other values are returned unchanged.
    """
    if _is_one_of(type(value), (list, tuple, str, bytes, range)):
        return value[: max(0, len(value) - 1 - seed)]
    return value


def fill_value(value: Any, digit: int, depth: int = MAX_DEPTH) -> Any:
    """Return `value` with every number, boolean, letter and key replaced by `digit`, 0 or 1, of the
    same type."""
    kind = type(value)
    if _is_one_of(kind, (bool, *_NUMBER_TYPES)):
        return kind(digit)
    if kind is str:
        return str(digit) * len(value)
    if _is_one_of(kind, (bytes, bytearray)):
        return kind(str(digit).encode() * len(value))
    if depth == 0:
        return value
    return _change_container(value, lambda item, _: fill_value(item, digit, depth - 1), keys=True)


def empty_value(value: Any, depth: int = MAX_DEPTH) -> Any:
    """Return `value` without items in its lists, strings and tables.

    Other values are returned unchanged.
    """
    kind = type(value)
    if _is_one_of(kind, (list, tuple, str, bytes, bytearray, set, frozenset, collections.deque)):
        return kind()
    if kind is range:
        return range(0)
    if _is_one_of(kind, _MAPPING_TYPES):
        return (
            collections.defaultdict(value.default_factory) if kind is _MAPPING_TYPES[3] else kind()
        )
    if _is_one_of(kind, _LAZY_TYPES) and not _is_one_of(kind, _FUNCTION_TYPES):
        return iter(())
    return (
        value
        if depth == 0
        else _change_container(value, lambda item, _: empty_value(item, depth - 1))
    )


def copy_value(value: Any, depth: int = MAX_DEPTH) -> Any:
    """Return a copy that is equal but not identical where possible, nested to `depth`.

    Enum members are returned as they are, because a program may test their identity.
    """
    kind = type(value)
    if _is_one_of(kind, (int, float, complex)):
        negative = -value
        return -negative
    if _is_one_of(kind, (str, bytes)):
        return value[:1] + value[1:]
    if _is_one_of(kind, (bytearray, range)):
        return value[:]
    if kind is types.FunctionType:
        return _copy_function(value)
    if (
        depth == 0
        or _is_one_of(kind, (*_SCALAR_TYPES, *_LAZY_TYPES))
        or _has_attribute(kind, "_member_map_")
    ):
        return value
    return _change_container(value, lambda item, _: copy_value(item, depth - 1))


def _copy_function(function: types.FunctionType) -> types.FunctionType:
    copy = types.FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    functools.update_wrapper(copy, function)
    del copy.__wrapped__  # type: ignore[attr-defined]
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def value_key(value: Any) -> bytes | None:
    """Return bytes that are the same for equal values, including those of a program's classes.

    Return None if a value cannot be converted.
    """
    try:
        return marshal.dumps(_key_data(value, MAX_DEPTH), 0)
    except (ValueError, MemoryError):
        return None


def _key_data(value: Any, depth: int) -> Any:
    kind = type(value)
    if _is_one_of(kind, (bool, *_NUMBER_TYPES)):
        return _ratio(value)
    if depth == 0 or _is_one_of(kind, (*_SCALAR_TYPES, bytearray)):
        return value
    if _is_one_of(kind, _MAPPING_TYPES):
        pairs = [marshal.dumps(_key_data(pair, depth - 1), 0) for pair in dict.items(value)]
        return ["dict", sorted(pairs)]
    if _is_one_of(kind, (set, frozenset)):
        return ["set", sorted(marshal.dumps(_key_data(item, depth - 1), 0) for item in value)]
    for base in (list, tuple, set, frozenset, collections.deque, dict):
        if issubclass(kind, base):
            items: Any = dict.items(value) if base is dict else base.__iter__(value)
            break
    else:
        fields = _fields(value)
        if fields is None:
            raise ValueError
        items = fields.items()
    return [id(kind), [_key_data(item, depth - 1) for item in items]]


def _ratio(number: Any) -> Any:
    """Return a value that is the same for equal numbers of every type."""
    if type(number) is complex:
        return _ratio(number.real) if number.imag == 0 else number
    try:
        return number.as_integer_ratio()
    except (OverflowError, ValueError):
        return float(number)


def _change_nested(value: Any, seed: int, longer: bool, depth: int, place: int = 0) -> Any:
    kind = type(value)
    if kind is bool or _is_one_of(kind, _NUMBER_TYPES):
        return value if longer else _change_number(value, seed, place)
    if kind is str:
        return _change_text(value, seed, longer)
    if _is_one_of(kind, (bytes, bytearray)):
        return kind(_change_text(value.decode("latin-1"), seed, longer), "latin-1")
    if kind is range:
        return range(value.start, value.stop + (seed + 1) * value.step, value.step)
    if depth == 0 or value is None:
        return value

    def change(item: Any, place: int) -> Any:
        return _change_nested(item, seed, longer, depth - 1, place) if place < MAX_ITEMS else item

    changed = _change_container(value, change)
    if longer and _is_one_of(kind, (list, collections.deque)):
        changed.extend((list(changed)[-1:] or [0]) * (seed + 1))
    if longer and _is_one_of(kind, (set, frozenset)) and changed is not value:
        changed = kind([*value, *_change_nested(value, seed, False, depth)])
    return changed


def _change_container(value: Any, change: ChangeItem, *, keys: bool = False) -> Any:
    """Return `value` with other items, attributes and results, also `keys`. Opaque values stay."""
    kind = type(value)

    def each(items: Iterable[Any]) -> list[Any]:
        return [change(item, place) for place, item in enumerate(items)]

    if _is_one_of(kind, (list, collections.deque)):
        return kind(each(value))
    if kind is tuple or (issubclass(kind, tuple) and _has_attribute(kind, "_fields")):
        return tuple.__new__(kind, each(tuple.__iter__(value)))
    if _is_one_of(kind, (set, frozenset)):
        return kind(each(value)) if all(map(_is_safely_hashable, value)) else value
    if _is_one_of(kind, _MAPPING_TYPES):
        return _change_mapping(value, each, keys) if all(map(_is_safely_hashable, value)) else value
    return (
        _change_lazy(value, change)
        if _is_one_of(kind, _LAZY_TYPES)
        else _change_instance(value, each)
    )


def _change_lazy(value: Any, change: ChangeItem) -> Any:
    """Return an iterator or a function that changes its values when they are produced."""
    if _is_one_of(type(value), _FUNCTION_TYPES):
        return lambda *args, **options: change(value(*args, **options), 0)
    return (change(item, place) for place, item in enumerate(value))


def _change_mapping(value: Any, each: Callable[[Iterable[Any]], list[Any]], keys: bool) -> Any:
    copy = value.copy()
    if keys:
        copy.clear()
    dict.update(copy, zip(each(value) if keys else value, each(value.values()), strict=True))
    return copy


def _is_safely_hashable(value: Any) -> bool:
    """Return True if hashing or comparing `value` runs no method of a program."""
    if _is_one_of(type(value), (tuple, frozenset)):
        return all(map(_is_safely_hashable, value))
    return _is_one_of(type(value), _HASHABLE_TYPES)


def _is_one_of(kind: type, kinds: Iterable[type]) -> bool:
    """Return True if it is one of these, without using a program's metaclass."""
    return any(kind is one for one in kinds)


def _change_number(value: Any, seed: int, place: int) -> Any:
    """Return a number larger by 1 to 3, so that an index or a count may stay valid."""
    if type(value) is bool:
        return value if (seed + place) % 2 else not value
    try:
        whole = math.floor(value.real if type(value) is complex else value)
    except (OverflowError, ValueError):  # for infinity and NaN
        whole = 0
    return value + 1 + (whole + seed) % 3


def _change_text(text: str, seed: int, longer: bool) -> str:
    """Shift letters and digits, so that a number stays a number and a name a name."""
    by = seed % 8 + 1
    table = {ord(c): kind[(i + by) % len(kind)] for kind in _LETTERS for i, c in enumerate(kind)}
    changed = text if longer else text.translate(table)
    if changed == text and not longer:
        changed = text[by:] + text[:by]
    return changed + (changed[-1:] or "~") * by if changed == text else changed


def _change_instance(value: Any, each: Callable[[Iterable[Any]], list[Any]]) -> Any:
    """Return an instance of the program's own class, with other attributes."""
    fields = _fields(value)
    if fields is None or _has_attribute(type(value), "__del__"):
        return value
    try:
        copy = object.__new__(type(value))
    except TypeError:
        return value
    attributes = _fields(copy)
    if attributes is None:
        return value
    attributes.update(zip(fields, each(fields.values()), strict=True))
    return copy


def _fields(value: Any) -> dict[str, Any] | None:
    """Return the attributes of an object that no code of its class intercepts."""
    attributes = next(
        (space["__dict__"] for space in _class_namespaces(type(value)) if "__dict__" in space), None
    )
    if type(attributes) is not types.GetSetDescriptorType:
        return None
    fields = attributes.__get__(value)
    plain = type(fields) is dict and all(type(name) is str for name in fields)
    return fields if plain else None


def _has_attribute(kind: type, name: str) -> bool:
    return any(name in space for space in _class_namespaces(kind))


def _class_namespaces(kind: type) -> Iterator[Any]:
    """Yield the namespaces of a class and its bases, without using its metaclass."""
    for one in type.__dict__["__mro__"].__get__(kind):
        yield type.__dict__["__dict__"].__get__(one)
