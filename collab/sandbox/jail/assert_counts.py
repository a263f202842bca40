"""Counts how often a test evaluates each of its asserts, for any behavior of the candidate.

The test runs twice without a program, with a stand-in for the candidate that accepts every
operation. Once the stand-in is nothing (false, zero, empty), and once something (true, two, of two
items). If both runs finish with the same count, the count does not depend on the candidate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any


class CountingRunner:
    """A test runner that finds no fault, and only counts."""

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()

    def equal(self, number: int, *_: object) -> None:
        """Count an evaluation of assert `number`."""
        self.counts[number] += 1

    true = raised = equal


class StandIn:
    """Stands for the candidate and for its answers, either as an empty or as a non-empty value."""

    def __init__(self, something: bool) -> None:
        self._size = 2 if something else 0

    def _return_self(self, *_: object, **__: object) -> Any:
        return self

    def _truth(self, *_: object) -> bool:
        return bool(self._size)

    def _number(self, *_: object) -> int:
        return self._size

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter([self] * self._size)

    def __float__(self) -> float:
        return float(self._size)

    def __complex__(self) -> complex:
        return complex(self._size)

    def __str__(self) -> str:
        return "x" * self._size

    def __hash__(self) -> int:
        return self._size

    __repr__ = __str__
    __call__ = __getitem__ = __enter__ = __round__ = __reversed__ = _return_self
    __bool__ = __contains__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _truth
    __len__ = __int__ = __index__ = __trunc__ = __floor__ = __ceil__ = _number
    __setitem__ = __delitem__ = __exit__ = lambda *_: None
    __pos__ = __neg__ = __abs__ = __invert__ = _return_self


_OPERATORS = """
add sub mul matmul truediv floordiv mod divmod pow lshift rshift and xor or
"""
for _name in _OPERATORS.split():
    for _kind in ("", "r", "i"):
        setattr(StandIn, f"__{_kind}{_name}__", StandIn._return_self)
