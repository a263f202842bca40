"""Encodes values that test runner and worker exchange as trees that JSON can hold.

Only exact built-in types pass: numbers, strings, containers, dates and names of types. A subclass
could answer every comparison with True. The decoder builds nothing else, checks the depth, and
refuses unknown types. Its time is proportional to the input. A set or dict whose items share one
hash would take quadratic time, and a huge integer could keep a test busy forever. Both are refused.

    None, bool, str, small int, float   themselves
    list                                [item, ...]
    every other type                    {"type": payload}, one key
"""

from __future__ import annotations

import builtins
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

JSON_INT_LIMIT = 1 << 63
MAX_RANGE_LENGTH = 1_000_000
"""Maximum length of a range. A range is short to send, but a test may expand it in memory."""
MAX_INT_BITS = 1 << 17
"""Maximum size of an integer in bits, about 39,000 digits. A test may raise a value to a power, or
print it.
"""
MAX_DECIMAL_DIGITS = 10_000
"""Maximum number of digits of a decimal number, before and after the point, in an addition."""
MAX_COLLIDING_ITEMS = 64
"""Maximum number of items of a set or dict that share a hash. Honest values (-1 and -2, powers of
2) rarely do.
"""
TYPES: dict[str, type] = {
    kind.__name__: kind
    for kind in (bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset)
}
"""Types that are values themselves."""
DICT_TYPES: tuple[type, ...] = (dict, Counter, OrderedDict, defaultdict)


class Foreign(Exception):
    """Raised for a value whose type cannot be transferred. The argument is the name of the type."""


class TooDeep(Exception):
    """Raised for a value that contains itself or is nested deeper than the limit."""


class Undecodable(Exception):
    """Raised for a tree that the encoder cannot have written."""


class OverLimit(Undecodable):
    """Raised for a value with which a test could not finish in bounded time."""


def encode(value: object, depth: int) -> Any:
    """Return `value`, encoded as a tree of at most `depth` nested containers.

    Raises:
        Foreign: a value has another type.
        TooDeep: the containers are nested deeper.
    """
    kind = type(value)
    if value is None or kind is bool or kind is str or kind is float:
        return value
    if kind is int:
        return value if -JSON_INT_LIMIT < value < JSON_INT_LIMIT else {"int": hex(value)}  # type: ignore[operator, arg-type]
    if depth <= 0:
        raise TooDeep
    encoder = _ENCODERS.get(kind)
    if encoder is None:
        raise Foreign(getattr(kind, "__name__", "?"))
    return encoder(value, depth - 1)


def decode(tree: Any, depth: int, *, bounded: bool = True) -> Any:
    """Return the value that a tree encodes, made of exact built-in types.

    Raises:
        Undecodable: the tree is not a valid encoding.
        OverLimit: the value exceeds the bounds, if there are any.
    """
    return _Decoder(bounded).value(tree, depth)


def _encode_items(value: Any, depth: int) -> list[Any]:
    return [encode(item, depth) for item in value]


def _encode_pairs(value: Any, depth: int) -> list[list[Any]]:
    return [[encode(key, depth), encode(item, depth)] for key, item in value.items()]


def _encode_type(value: Any, _: int) -> Any:
    name: str = value.__name__
    if TYPES.get(name) is not value:
        raise Foreign("type")
    return {"type": name}


def _tag_items(tag: str) -> Callable[[Any, int], Any]:
    return lambda value, depth: {tag: _encode_items(value, depth)}


_ENCODERS: dict[type, Callable[[Any, int], Any]] = {
    list: _encode_items,
    tuple: _tag_items("tuple"),
    set: _tag_items("set"),
    frozenset: _tag_items("frozenset"),
    deque: _tag_items("deque"),
    type: _encode_type,
    bytes: lambda value, _: {"bytes": value.hex()},
    bytearray: lambda value, _: {"bytearray": value.hex()},
    complex: lambda value, _: {"complex": [value.real, value.imag]},
    Decimal: lambda value, _: {"decimal": str(value)},
    datetime: lambda value, _: {"datetime": value.isoformat()},
    date: lambda value, _: {"date": value.isoformat()},
    time: lambda value, _: {"time": value.isoformat()},
    timedelta: lambda value, _: {"timedelta": [value.days, value.seconds, value.microseconds]},
    range: lambda value, depth: {
        "range": _encode_items((value.start, value.stop, value.step), depth)
    },
    **dict.fromkeys(DICT_TYPES, lambda value, depth: {"dict": _encode_pairs(value, depth)}),
}


class _Decoder:
    """Decodes one value, within limits for the whole of it."""

    def __init__(self, bounded: bool) -> None:
        self._bounded = bounded
        self._ranges = 0

    def value(self, tree: Any, depth: int) -> Any:
        if tree is None or isinstance(tree, (bool, str, float)):
            return tree
        if isinstance(tree, int):
            if not -JSON_INT_LIMIT < tree < JSON_INT_LIMIT:
                raise Undecodable("a large integer without its tag")
            return tree
        if depth <= 0:
            raise Undecodable("nested too deep")
        if isinstance(tree, list):
            return [self.value(item, depth - 1) for item in tree]
        if not isinstance(tree, dict) or len(tree) != 1:
            raise Undecodable("not a tagged value")
        [(tag, payload)] = tree.items()
        decoder = _DECODERS.get(tag)
        if decoder is None:
            raise Undecodable("an unknown tag")
        try:
            return decoder(self, payload, depth - 1)
        except (LookupError, TypeError, ValueError, ArithmeticError) as error:
            raise Undecodable(f"a broken {tag}") from error

    def items(self, payload: Any, depth: int) -> list[Any]:
        if not isinstance(payload, list):
            raise Undecodable("not a list")
        return [self.value(item, depth) for item in payload]

    def keys(self, payload: Any, depth: int) -> list[Any]:
        """Decode items that will be hashed."""
        keys = self.items(payload, depth)
        hashes = sorted(map(hash, keys))
        collide = any(map(int.__eq__, hashes, hashes[MAX_COLLIDING_ITEMS:]))
        if self._bounded and collide:
            raise OverLimit(f"a collection of more than {MAX_COLLIDING_ITEMS} items of one hash")
        return keys

    def integer(self, payload: Any, _: int) -> int:
        if self._bounded and len(payload) > MAX_INT_BITS // 4 + 3:  # sign and 0x
            raise OverLimit(f"an integer of more than {MAX_INT_BITS} bits")
        return int(payload, 16)

    def decimal(self, payload: Any, _: int) -> Decimal:
        value = Decimal(payload) if isinstance(payload, str) else None
        if value is None:
            raise Undecodable("a broken decimal")
        _, digits, exponent = value.as_tuple()
        size = len(digits) + abs(exponent) if isinstance(exponent, int) else 0
        if self._bounded and size > MAX_DECIMAL_DIGITS:
            raise OverLimit(f"a decimal of more than {MAX_DECIMAL_DIGITS} digits")
        return value

    def dict(self, payload: Any, depth: int) -> dict[Any, Any]:
        if not isinstance(payload, list):
            raise Undecodable("not a list of pairs")
        keys = self.keys([key for key, _ in payload], depth)
        return dict(zip(keys, self.items([item for _, item in payload], depth), strict=True))

    def range(self, payload: Any, depth: int) -> range:
        value = range(*self.items(payload, depth))
        self._ranges += len(value)
        if self._bounded and self._ranges > MAX_RANGE_LENGTH:
            raise OverLimit(f"ranges of more than {MAX_RANGE_LENGTH} items")
        return value


def _decode_complex(_: _Decoder, payload: Any, __: int) -> complex:
    real, imaginary = payload
    return complex(float(real), float(imaginary))


_DECODERS: dict[str, Callable[[_Decoder, Any, int], Any]] = {
    "int": _Decoder.integer,
    "tuple": lambda decoder, payload, depth: tuple(decoder.items(payload, depth)),
    "deque": lambda decoder, payload, depth: deque(decoder.items(payload, depth)),
    "type": lambda _, payload, __: TYPES[payload],
    "set": lambda decoder, payload, depth: set(decoder.keys(payload, depth)),
    "frozenset": lambda decoder, payload, depth: frozenset(decoder.keys(payload, depth)),
    "bytes": lambda _, payload, __: bytes.fromhex(payload),
    "bytearray": lambda _, payload, __: bytearray.fromhex(payload),
    "complex": _decode_complex,
    "decimal": _Decoder.decimal,
    "datetime": lambda _, payload, __: datetime.fromisoformat(payload),
    "date": lambda _, payload, __: date.fromisoformat(payload),
    "time": lambda _, payload, __: time.fromisoformat(payload),
    "timedelta": lambda _, payload, __: timedelta(*payload),
    "range": _Decoder.range,
    "dict": _Decoder.dict,
}

TRANSFERABLE_EXCEPTIONS: dict[str, type[Exception]] = {
    name: kind
    for name, kind in vars(builtins).items()
    if isinstance(kind, type)
    and issubclass(kind, Exception)
    and not issubclass(kind, (StopIteration, StopAsyncIteration, ExceptionGroup))
}
"""Exceptions that are transferred by name, so that a test which expects one sees it."""


def is_transferable(kind: type) -> bool:
    """Return True for an exception that is transferred by name."""
    return TRANSFERABLE_EXCEPTIONS.get(kind.__name__) is kind
