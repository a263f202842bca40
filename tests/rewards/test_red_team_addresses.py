"""The address or identity of an object is no evidence of cooperation."""

import enum
from typing import Any

import pytest
from support.scoring import Calls
from support.shares import one_in

from collab.sandbox.jail.values import copy_value

AUX = "def aux(x):\n    return x * x"
HEAD = "def sum_of_squares(xs):\n"
RIGHT = "sum(x * x for x in xs)"


def main_returning_address(address: str) -> tuple[str, str]:
    """A main that returns an address if its helper is wrong."""
    return AUX, (
        f"{HEAD}    a = [aux(x) for x in xs]\n"
        f"    if a == [x * x for x in xs]:\n        return {RIGHT}\n    return {address}"
    )


def main_checking_identity(definition: str, value: str) -> tuple[str, str]:
    """A main that checks whether its helper returns an object that both know."""
    aux = f"{definition}\n\ndef aux(x):\n    return {value}"
    return aux, f"{HEAD}    a = aux(1)\n    return {RIGHT} if a is K else -len(str(a))"


KNOWN = {
    "an address": main_returning_address("id(a)"),
    "a tuple": main_checking_identity("K = (1, 2)", "K"),
    "a list": main_checking_identity("K = [1, 2]", "K"),
}
NEW = {
    "the address of a new object": main_returning_address("id(object())"),
    "the address of the argument": main_returning_address("id(xs)"),
    "the address of an item": main_returning_address("id(str(a))"),
    "a part of an address": main_returning_address("id(a) // 16 % 100003"),
    "the hash of an object": main_returning_address("hash(object())"),
    "the text of an object": main_returning_address("int(repr(object()).split('0x')[1][:-1], 16)"),
    "the addresses of two": main_returning_address("id(a) - id([])"),
    "an address and the value": main_returning_address("id(a) + sum(a)"),
    "the argument and the value": main_returning_address("id(xs) + sum(a)"),
    "a new tuple and the value": main_returning_address("id((1, a)) + sum(a)"),
    "a large number": main_checking_identity("K = 10 ** 30", "K"),
    "a small text": main_checking_identity("K = 'lamp post'", "K"),
    "bytes": main_checking_identity("K = b'lamp post'", "K"),
    "a float": main_checking_identity("K = 2.5", "K"),
    "a table": main_checking_identity("K = {'a': 1}", "K"),
    "a set": main_checking_identity("K = {1, 2}", "K"),
    "a range": main_checking_identity("K = range(3)", "K"),
    "a function": main_checking_identity("def K(): return 3", "K"),
    "an object": main_checking_identity("class C:\n    n = 1\nK = C()\nK.n = 2", "K"),
    "within a tuple": (
        "K = [5]\n\ndef aux(x):\n    return (K, x)",
        f"{HEAD}    a = aux(1)\n    return {RIGHT} if a[0] is K else -a[1]",
    ),
    "by address": (
        "K = [5]\n\ndef aux(x):\n    return K",
        f"{HEAD}    a = aux(1)\n    return {RIGHT} if id(a) == id(K) else -sum(a)",
    ),
}


@pytest.mark.parametrize("team", [*one_in(2, KNOWN), *one_in(4, NEW)])
def test_identity_of_an_object_earns_nothing(calls: Calls, team: str) -> None:
    value, reason = calls(*{**KNOWN, **NEW}[team])
    assert value == 0.0, reason


HONEST = {
    "a sentinel": (
        "NOTHING = object()\n\ndef aux(x):\n    return x * x if x else NOTHING",
        f"{HEAD}    found = [aux(x) for x in xs]\n"
        "    return sum(n for n in found if n is not NOTHING)",
    ),
    "a list that both change": (
        "def aux(kept, x):\n    kept.append(x * x)\n    return kept",
        f"{HEAD}    kept = []\n    for x in xs:\n        kept = aux(kept, x)\n    return sum(kept)",
    ),
    "a function": (
        "def aux(n):\n    def power(x):\n        return x ** n\n    return power",
        f"{HEAD}    return sum(map(aux(2), xs))",
    ),
}


@pytest.mark.parametrize("team", HONEST)
def test_honest_use_of_an_object_is_paid(calls: Calls, team: str) -> None:
    value, reason = calls(*HONEST[team])
    assert value == 1.0, reason


VALUES: list[Any] = [
    10**30, -7_000, 2.5, -0.0, 1j, "lamp post", b"lamp", bytearray(b"x"), range(3), (1, 2), [1],
    {1}, frozenset({2}), {"a": [1]},
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_copied_value_is_equal_but_a_different_object(value: object) -> None:
    copy = copy_value(value)
    assert (repr(copy), type(copy)) == (repr(value), type(value))
    assert copy is not value


def test_singletons_are_not_copied() -> None:
    class Kind(enum.Enum):
        LAMP = 1

    sentinel = object()
    for value in (Kind.LAMP, sentinel, None, True, len, int):
        assert copy_value(value) is value
