"""Other values of the same kind: what a helper might have given, but did not."""

from __future__ import annotations

import collections
import decimal
import fractions
import functools
import marshal
import string
import types
from collections.abc import Callable, Iterable
from typing import Any

DEEPEST = 8
MOST_ITEMS = 10_000
"""Larger containers are changed in so many items."""
_SCALARS: tuple[type, ...] = (type(None), bool, int, float, complex, str, bytes)
_LETTERS = (string.ascii_lowercase, string.ascii_uppercase, string.digits)
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, functools.partial)
_LAZY: tuple[type, ...] = (
    *_FUNCTIONS, types.GeneratorType, map, filter, zip, enumerate, reversed,
    *(type(iter(kind())) for kind in (list, tuple, set, dict, str)),
)  # fmt: skip


def other(value: Any, seed: int, *, longer: bool = False) -> Any:
    """A value of the same type, and another one for another seed; lists and texts grow if `longer`.

    None and a bare yes or no stay, for nothing else is like them. Only what is Python's own is
    looked into; no method that the program defines is called.
    """
    if value is None or type(value) is bool:
        return value
    return _other(value, seed, longer, DEEPEST)


def shorter(value: Any, seed: int) -> Any:
    """A list, tuple, text or range without its last items, one for seed 0; others stay."""
    if type(value) in (list, tuple, str, bytes, range):
        return value[: max(0, len(value) - 1 - seed)]
    return value


def copied(value: Any, depth: int = DEEPEST) -> Any:
    """`value` again, as deep as `other` looks; what cannot change is the same object."""
    if depth == 0 or type(value) in (*_SCALARS, *_LAZY, range):
        return value
    if type(value) is bytearray:
        return bytearray(value)

    def change(items: Iterable[Any]) -> list[Any]:
        return [copied(item, depth - 1) for item in items]

    copy = _container(value, 0, False, change)
    same = type(value) is tuple and all(a is b for a, b in zip(value, copy, strict=True))
    return value if same else copy


def shape(value: Any) -> bytes | None:
    """A text that is the same for equal values, of a program's classes too; None where none is."""
    try:
        return marshal.dumps(_shape(value, DEEPEST), 0)
    except ValueError:
        return None


def _shape(value: Any, depth: int) -> Any:
    if depth == 0 or type(value) in (*_SCALARS, bytearray):
        return value
    items: Iterable[Any]
    if isinstance(value, (list, tuple, set, frozenset, collections.deque)):
        items = value
    elif isinstance(value, dict):
        items = [*value.items()]
    else:
        try:
            items = object.__getattribute__(value, "__dict__").items()
        except AttributeError:
            raise ValueError from None
    return [id(type(value)), [_shape(item, depth - 1) for item in items]]


def _other(value: Any, seed: int, longer: bool, depth: int) -> Any:
    kind = type(value)
    if kind is bool:
        return value if seed % 2 else not value
    if kind in (int, float, complex, decimal.Decimal, fractions.Fraction):
        return _number(value, seed)
    if kind is str:
        return _text(value, seed, longer)
    if kind in (bytes, bytearray):
        return kind(_text(value.decode("latin-1"), seed, longer), "latin-1")
    if depth == 0 or value is None:
        return value

    def change(items: Iterable[Any]) -> list[Any]:
        return [
            _other(item, seed + place, longer, depth - 1) if place < MOST_ITEMS else item
            for place, item in enumerate(items)
        ]

    return _container(value, seed, longer, change)


def _container(
    value: Any, seed: int, longer: bool, change: Callable[[Iterable[Any]], list[Any]]
) -> Any:
    kind = type(value)
    if kind in (list, collections.deque):
        items = change(value)
        return kind([*items, *(items[-1:] or [0]) * (seed + 1)] if longer else items)
    if kind is tuple or (issubclass(kind, tuple) and hasattr(kind, "_fields")):
        return tuple.__new__(kind, change(value))
    if kind in (set, frozenset):
        return kind(change(value)) | (value if longer else kind())
    if kind in (dict, collections.Counter, collections.OrderedDict, collections.defaultdict):
        copy = value.copy()
        copy.update(dict(zip(value, change(value.values()), strict=True)))
        return copy
    if kind is range:
        return range(value.start, value.stop + (seed + 1) * value.step, value.step)
    return _lazy(value, seed, longer) if kind in _LAZY else _instance(value, change)


def _lazy(value: Any, seed: int, longer: bool) -> Any:
    """An iterator or a function, whose values are other ones when they come."""
    if isinstance(value, _FUNCTIONS):
        return lambda *args, **options: other(value(*args, **options), seed, longer=longer)
    return (other(item, seed, longer=longer) for item in value)


def _number(value: Any, seed: int) -> Any:
    """Larger by 1 to 3, so that what was an index or a count may still be one."""
    if type(value) is int:
        return value + 1 + (value + seed) % 3
    return value + 1 + seed % 7


def _text(text: str, seed: int, longer: bool) -> str:
    """Letters and digits moved along, so that a number stays a number and a name a name."""
    by = seed % 8 + 1
    table = {ord(c): kind[(i + by) % len(kind)] for kind in _LETTERS for i, c in enumerate(kind)}
    changed = text.translate(table)
    if changed == text:
        changed = text[by:] + text[:by]
    if longer or changed == text:
        changed += (changed[-1:] or "~") * by
    return changed


def _instance(value: Any, change: Callable[[Iterable[Any]], list[Any]]) -> Any:
    """An instance of the program's own class, with other attributes."""
    kind: Any = type(value)
    try:
        fields: dict[str, Any] = object.__getattribute__(value, "__dict__")
        copy = object.__new__(kind)
        own: dict[str, Any] = object.__getattribute__(copy, "__dict__")
    except (AttributeError, TypeError):
        return value
    own.update(zip(fields, change(fields.values()), strict=True))
    return copy
