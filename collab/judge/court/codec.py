"""Values that may cross between referee and worker, as trees that JSON can carry.

Exact built-in types only: a subclass could answer every comparison with True. The decoder builds
nothing but built-ins, checks depth, and refuses what it does not know.

    None, bool, str, small int, float   themselves
    list                                [item, ...]
    every other type                    {"type": payload}, one key
"""

from __future__ import annotations

import builtins
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

SMALL = 1 << 63
LONGEST_RANGE = 1_000_000
"""A range says in few bytes what a test may then spread out in memory."""
DICTS: tuple[type, ...] = (dict, Counter, OrderedDict, defaultdict)


class Foreign(Exception):
    """A value of a type that does not cross; its argument is the type's name."""


class TooDeep(Exception):
    """A value that is nested deeper than the limit, or within itself."""


class Undecodable(Exception):
    """A tree that no encoder of ours wrote."""


def encode(value: object, depth: int) -> Any:
    """The tree of `value`, at most `depth` containers deep. Raises Foreign or TooDeep."""
    kind = type(value)
    if value is None or kind is bool or kind is str or kind is float:
        return value
    if kind is int:
        return value if -SMALL < value < SMALL else {"int": hex(value)}  # type: ignore[operator, arg-type]
    if depth <= 0:
        raise TooDeep
    encoder = _ENCODERS.get(kind)
    if encoder is None:
        raise Foreign(getattr(kind, "__name__", "?"))
    return encoder(value, depth - 1)


def decode(tree: Any, depth: int) -> Any:
    """The value of `tree`, of exact built-in types. Raises Undecodable."""
    if tree is None or isinstance(tree, (bool, str, int, float)):
        return tree
    if depth <= 0:
        raise Undecodable("nested too deep")
    if isinstance(tree, list):
        return [decode(item, depth - 1) for item in tree]
    if not isinstance(tree, dict) or len(tree) != 1:
        raise Undecodable("not a tagged value")
    [(tag, payload)] = tree.items()
    decoder = _DECODERS.get(tag)
    if decoder is None:
        raise Undecodable("an unknown tag")
    try:
        return decoder(payload, depth - 1)
    except (TypeError, ValueError, OverflowError) as error:
        raise Undecodable(f"a broken {tag}") from error


def _items(value: Any, depth: int) -> list[Any]:
    return [encode(item, depth) for item in value]


def _pairs(value: Any, depth: int) -> list[list[Any]]:
    return [[encode(key, depth), encode(item, depth)] for key, item in value.items()]


def _encode_pairs(value: Any, depth: int) -> Any:
    return {"dict": _pairs(value, depth)}


def _tagged(tag: str) -> Callable[[Any, int], Any]:
    return lambda value, depth: {tag: _items(value, depth)}


_ENCODERS: dict[type, Callable[[Any, int], Any]] = {
    list: _items,
    tuple: _tagged("tuple"),
    set: _tagged("set"),
    frozenset: _tagged("frozenset"),
    bytes: lambda value, _: {"bytes": value.hex()},
    bytearray: lambda value, _: {"bytearray": value.hex()},
    complex: lambda value, _: {"complex": [value.real, value.imag]},
    range: lambda value, depth: {"range": _items((value.start, value.stop, value.step), depth)},
    **dict.fromkeys(DICTS, _encode_pairs),
}


def _decoded(payload: Any, depth: int) -> list[Any]:
    if not isinstance(payload, list):
        raise Undecodable("not a list")
    return [decode(item, depth) for item in payload]


def _decode_dict(payload: Any, depth: int) -> dict[Any, Any]:
    if not isinstance(payload, list):
        raise Undecodable("not a list of pairs")
    return {decode(key, depth): decode(item, depth) for key, item in payload}


def _decode_complex(payload: Any, _: int) -> complex:
    real, imaginary = payload
    return complex(float(real), float(imaginary))


def _decode_range(payload: Any, depth: int) -> range:
    value = range(*_decoded(payload, depth))
    if len(value) > LONGEST_RANGE:
        raise Undecodable("too long a range")
    return value


_DECODERS: dict[str, Callable[[Any, int], Any]] = {
    "int": lambda payload, _: int(payload, 16),
    "tuple": lambda payload, depth: tuple(_decoded(payload, depth)),
    "set": lambda payload, depth: set(_decoded(payload, depth)),
    "frozenset": lambda payload, depth: frozenset(_decoded(payload, depth)),
    "bytes": lambda payload, _: bytes.fromhex(payload),
    "bytearray": lambda payload, _: bytearray.fromhex(payload),
    "complex": _decode_complex,
    "range": _decode_range,
    "dict": _decode_dict,
}

CROSSING: dict[str, type[Exception]] = {
    name: kind
    for name, kind in vars(builtins).items()
    if isinstance(kind, type)
    and issubclass(kind, Exception)
    and not issubclass(kind, (StopIteration, StopAsyncIteration, ExceptionGroup))
}
"""Exceptions that cross by name, so that a test which expects one sees it."""
