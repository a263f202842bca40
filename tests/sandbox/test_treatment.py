"""Treatments: one function of a program returns other values; nothing else changes."""

import asyncio
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from collab.sandbox import Sandbox, Treatment, Trial, Verdict
from collab.sandbox.jail.values import change_value, copy_value, empty_value, fill_value, value_key
from collab.sandbox.verdict import Values

Pair = namedtuple("Pair", "a b")
VALUES: list[Any] = [
    0, -3, 10**30, 2.5, 1j, Decimal("1.5"), Fraction(1, 3), "ab1", "()[]", "", "  ", b"x", b"",
    [1, 2], [True, False], (1, "a"), {1, 2}, frozenset(["ab"]), {"k": 1}, Counter("aab"),
    OrderedDict(a=1), defaultdict(int, a=1), deque([1]), range(3), Pair(1, 2),
]  # fmt: skip


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    sandbox = Sandbox()
    yield sandbox
    sandbox.close()


def test_changed_value_has_the_same_type() -> None:
    for value in VALUES:
        changed = change_value(value, 0)
        assert type(changed) is type(value), value
        assert changed != value


@pytest.mark.parametrize("value", [None, True, False], ids=repr)
def test_none_and_bare_booleans_are_not_changed(value: Any) -> None:
    assert change_value(value, 0) is value


def test_changed_containers_and_numbers_keep_their_shape() -> None:
    assert len(change_value((1, 2, 3), 1)) == 3
    assert len(change_value([1, 2, 3], 1)) == 3
    assert len(change_value([1, 2, 3], 1, longer=True)) == 5
    assert {*change_value({"a": 1, "b": 2}, 0)} == {"a", "b"}
    assert int(change_value("120", 0)) != 120


def test_generators_functions_and_objects_are_changed() -> None:
    class Point:
        def __init__(self) -> None:
            self.x = 1

    assert list(change_value(iter([1, 2]), 0)) != [1, 2]
    assert change_value(lambda: 1, 0)() != 1
    point = Point()
    changed = change_value(point, 0)
    assert (type(changed), point.x) == (Point, 1)
    assert changed.x != 1


def test_self_referencing_value_is_changed() -> None:
    value: list[Any] = [1]
    value.append(value)
    assert change_value(value, 0)[0] != 1


def judged(sandbox: Sandbox, program: str, test: str, **treatment: Any) -> Verdict:
    trial = Trial(
        program=program,
        entry_point="f",
        test=f"def check(candidate):\n    {test}\n",
        treatment=Treatment(function="aux", **treatment),
    )
    return asyncio.run(sandbox.check(trial))


PROGRAMS = {
    "return": "def aux(x):\n if x: return x + 1\n return 1",
    "yield": "def aux(x):\n yield x + 1",
    "yield from": "def aux(x):\n yield from [x + 1]",
    "lambda": "aux = lambda x: x + 1",
    "cached": "import functools\n@functools.cache\ndef aux(x):\n return x + 1",
    "in a branch": "if True:\n def aux(x):\n  return x + 1",
    "nested": "def aux(x):\n def inner(y):\n  return y + 1\n return inner(x)",
    "try": "def aux(x):\n try:\n  return x + 1\n finally:\n  pass",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_control_changes_nothing_and_treatment_the_value(sandbox: Sandbox, name: str) -> None:
    use = "list(aux(x))[0]" if name.startswith("yield") else "aux(x)"
    program = f"{PROGRAMS[name]}\ndef f(x):\n return {use}"
    assert judged(sandbox, program, "assert candidate(4) == 5", values="true").passed
    changed = judged(sandbox, program, "assert candidate(4) == 5", values="other")
    assert changed.loaded
    assert not changed.passed
    assert changed.checks[0].answer


def test_the_same_value_is_changed_alike_within_an_answer(sandbox: Sandbox) -> None:
    program = "def aux(x):\n return x\ndef f(x):\n return (aux(x) - aux(x), aux(x) == x)"
    for values in ("once", "other"):
        test = "assert candidate(4) == (0, False)"
        assert judged(sandbox, program, test, values=values).passed


def test_a_loop_that_waits_for_a_value_ends(sandbox: Sandbox) -> None:
    program = "def aux(x):\n return x > 3\ndef f(x):\n while not aux(x): x += 1\n return x"
    verdict = judged(sandbox, program, "assert candidate(1) == 4", values="none")
    assert "time_limit" not in verdict.flags
    assert not verdict.passed


@pytest.mark.parametrize("before", ["", "aux.__name__ = 'other'\n"])
@pytest.mark.parametrize("values", ["true", "other", "first"])
def test_program_that_inspects_a_function_gets_no_answer(
    sandbox: Sandbox, values: Values, before: str
) -> None:
    program = f"def aux(x):\n return x\n{before}aux.__code__\ndef f(x):\n return aux(x)"
    verdict = judged(sandbox, program, "assert candidate(4) == 4", values=values)
    assert verdict.loaded
    assert verdict.checks[0].answer is None


def test_a_value_is_changed_alike_in_the_whole_run(sandbox: Sandbox) -> None:
    program = (
        "def aux(x):\n return x\nKEPT = aux(7)\n"
        "def f(x):\n return aux(x) - aux(x), aux(7) - KEPT, [aux(7) for _ in range(70)][0] - KEPT"
    )
    every: tuple[Values, ...] = ("once", "other", "longer", "shorter", "first", "previous")
    for values in every:
        verdict = judged(sandbox, program, "assert candidate(4) == (0, 0, 0)", values=values)
        assert verdict.passed or verdict.checks[0].answer is None, values


def test_object_identity_is_preserved(sandbox: Sandbox) -> None:
    program = (
        "ONE = [1]\ndef aux(x):\n return ONE if x < 9 else [x]\n"
        "def f(x):\n return aux(1) is aux(2), aux(9) is aux(9)"
    )
    for values in ("true", "once", "other", "longer", "shorter", "first", "previous"):
        assert judged(
            sandbox, program, "assert candidate(4) == (True, False)", values=values
        ).passed


def test_shifted_returns_each_boolean_one_call_later(sandbox: Sandbox) -> None:
    program = "def aux(x):\n return x > 2\ndef f(xs):\n return [aux(x) for x in xs]"
    shifted = "assert candidate([1, 3, 1, 1]) == [False, False, True, False]"
    begins_anew = "assert candidate([3, 1]) == [True, True]"
    verdict = judged(sandbox, program, f"{shifted}; {begins_anew}", values="shifted")
    assert (verdict.tests.passed, verdict.tests.total) == (2, 2), verdict
    control = judged(
        sandbox, program, "assert candidate([1, 3, 1]) == [False, True, False]", values="true"
    )
    assert control.passed


def test_shifted_leaves_other_values_unchanged(sandbox: Sandbox) -> None:
    program = "def aux(x):\n return x\ndef f(xs):\n return [aux(x) for x in xs]"
    for values in ("[1, 0, 1]", "['a', '', None]", "[[True], [False]]"):
        test = f"assert candidate({values}) == {values}"
        assert judged(sandbox, program, test, values="shifted").passed, values


def test_a_program_without_the_function_does_not_load(sandbox: Sandbox) -> None:
    verdict = judged(sandbox, "def f(x):\n return x", "assert candidate(4) == 4", values="true")
    assert not verdict.loaded
    assert verdict.error is not None
    assert "no function `aux`" in verdict.error


def test_equal_answers_have_equal_digests_in_any_order(sandbox: Sandbox) -> None:
    digests = set()
    for items in ("'a', 'b', 'c'", "'c', 'b', 'a'"):
        program = f"def aux(x):\n return x\ndef f(x):\n return ({{{items}}}, aux(x))"
        verdict = judged(sandbox, program, "assert candidate(4)", values="true")
        digests.add(verdict.checks[0].answer)
    assert len(digests) == 1


def test_only_the_function_on_the_given_lines_is_changed(sandbox: Sandbox) -> None:
    program = "def aux(x):\n return 0\ndef aux(x):\n return x\ndef f(x):\n return aux(x)"
    for lines, passes in ((None, False), ((1, 2), True), ((3, 4), False)):
        test = "assert candidate(4) == 4"
        assert judged(sandbox, program, test, values="other", lines=lines).passed is passes
    assert not judged(sandbox, program, test, values="true", lines=(5, 6)).loaded


def test_equal_numbers_are_changed_alike() -> None:
    for seed in (0, 1):
        assert (
            change_value(2, seed)
            == change_value(2.0, seed)
            == change_value(Fraction(2), seed)
            == change_value(2 + 0j, seed)
        )
        assert change_value(0.0, seed) == change_value(-0.0, seed)
        assert sum(change_value([1, 2], seed)) == sum(change_value([2, 1], seed))
    assert value_key(True) == value_key(1) == value_key(1.0)
    assert value_key({1, 2.0}) == value_key({2, 1})
    assert value_key({"a": 1, "b": 2}) == value_key({"b": 2, "a": 1}) != value_key({"a": 2, "b": 1})


def test_filled_and_emptied_values() -> None:
    value = [3, True, "ab", b"x", (2.5, None), {7: "k"}, Pair(4, 5)]
    assert fill_value(value, 1) == [1, True, "11", b"1", (1.0, None), {1: "1"}, Pair(1, 1)]
    assert fill_value(False, 1) is True
    assert [empty_value(v) for v in (value, "ab", (1,), {1: 2}, 5)] == [[], "", (), {}, 5]
    assert empty_value(Pair("a", [1])) == Pair("", [])


def test_changing_a_value_calls_no_method_of_the_program() -> None:
    called: list[str] = []

    class Counting(type):
        def __eq__(cls, _: object) -> bool:
            called.append("metaclass")
            return False

        def __hash__(cls) -> int:
            called.append("metaclass")
            return 1

    class Spy(metaclass=Counting):
        def __hash__(self) -> int:
            called.append("hash")
            return 1

        def __eq__(self, _: object) -> bool:
            called.append("eq")
            return False

        def __iter__(self) -> Iterator[int]:
            called.append("iter")
            return iter([1])

    class Items(list[int]):
        def __iter__(self) -> Iterator[int]:
            called.append("iter")
            return super().__iter__()

    values: list[Any] = [{Spy()}, {Spy(): Spy()}, Spy(), [Spy()], Items([1]), Counter([Spy()])]
    called.clear()
    for value in values:
        for change in (copy_value, value_key, empty_value):
            change(value)
        for seed in (0, 1):
            (
                change_value(value, seed),
                change_value(value, seed, longer=True),
                fill_value(value, seed),
            )
    assert called == []
