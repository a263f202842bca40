"""Programs that stop, hang or answer oddly count no better than wrong ones."""

import asyncio
from itertools import cycle

import pytest
from support.programs.counting import RAISING, RIGHT, counts, run

from collab.recipe.sandbox import SandboxSpec
from collab.sandbox import Sandbox, Trial, Verdict

pytestmark = pytest.mark.slow


def test_time_limit_keeps_passed_asserts_and_fails_the_rest() -> None:
    async def main() -> Verdict:
        async with Sandbox(SandboxSpec(seconds=0.4)) as sandbox:
            program = "def f(n):\n    while n == 2: pass\n    return n + 1\n"
            test = (
                "def check(candidate):\n    assert candidate(1) == 2\n"
                "    for n in (1, 2, 3):\n        assert candidate(n) == n + 1\n    assert True"
            )
            return await sandbox.check(Trial(program=program, entry_point="f", test=test))

    verdict = asyncio.run(main())
    assert counts(verdict) == (2, 4)
    assert verdict.error == "time limit of 0.4 s reached"
    assert verdict.flags == ("time_limit",)
    assert verdict.seconds < 1.4


COLLIDING = """
import json, os, struct, sys
def f(n):
    pairs = [[{"int": hex(i * (2**61 - 1))}, 0] for i in range(20_000)]
    call = sys._getframe(1).f_locals["call"]
    body = json.dumps({"id": call["id"], "value": {"dict": pairs}}).encode()
    os.write(4, struct.pack(">I", len(body)))
    while body:
        body = body[os.write(4, body):]
"""


def test_slow_answer_cannot_delay_the_test_runner(sandbox: Sandbox) -> None:
    verdict = run(sandbox, COLLIDING, "assert f(1) == 2")
    assert counts(verdict) == (0, 1)
    assert verdict.flags[0] == "answer_limit"
    assert verdict.seconds < 1


LOOPED = """
assert candidate(0) == 1
for n in range(9):
    expected = slow(n)
    assert candidate(n) == expected
"""
SLOW = "import time\ndef slow(n):\n    time.sleep(0.01)\n    return n + 1\n"
BREAKING_OFF = {
    "hanging": "while True: pass", "sleeping": "import time; time.sleep(99)",
    "raising": "raise ValueError", "exiting": "import os; os._exit(0)", "unhashable": "return {}",
    "huge": "return 1 << 2_000_000", "wrong": "return -1",
}  # fmt: skip


TESTS = (
    (LOOPED, 4, 10),
    ("for n in range(9):\n    x = candidate(n)\n    assert x == n + 1", 3, 9),
    ("for n in range(9):\n    x = hash(candidate(n))\n    assert x == n + 1", 3, 9),
    ("def one(n):\n    assert candidate(n) == n + 1\nfor n in range(9):\n    one(n)", 3, 9),
    ("while True:\n    assert f(0) == 1\n    x = f(4)\n    assert x == 5\n    break", 1, 2),
    ("i = 0\nwhile i < 9:\n    y = f(i) ** 9\n    i += 1\n    assert y == i ** 9", 3, 9),
)
"""Each test with the range of passing asserts, and the number of asserts."""


@pytest.mark.parametrize(("way", "test"), [*zip(3 * [*BREAKING_OFF], cycle(TESTS))])
def test_breaking_off_earns_no_more_than_a_wrong_answer(
    sandbox: Sandbox, way: str, test: tuple[str, int, int]
) -> None:
    asserts, held, total = test
    program = f"def f(n):\n    if n > 2: {BREAKING_OFF[way]}\n    return n + 1\n"
    verdict = run(sandbox, program, asserts, SLOW)
    assert not verdict.passed
    assert verdict.tests.total in (total, total + 1)
    assert verdict.tests.passed <= held


def test_asserts_in_a_loop_over_answers_count_as_one(sandbox: Sandbox) -> None:
    test = "for x in candidate(3):\n    assert x > 0\nassert candidate(0) == []"
    right = "def f(n):\n    return list(range(1, n + 1))\n"
    assert counts(run(sandbox, right, test)) == (2, 2)
    padded = "def f(n):\n    return [1] * 50\n"
    assert counts(run(sandbox, padded, test)) == (1, 2)
    broken_off = "def f(n):\n    if n == 0:\n        while True: pass\n    return [1] * 50\n"
    assert counts(run(sandbox, broken_off, test)) == (1, 2)
    within = "for x in candidate(3):\n    assert x > 0\n    y = candidate(x)"
    raising = "def f(n):\n    return [9] * 5 if n == 3 else 1 / 0\n"
    assert counts(run(sandbox, raising, within)) == (0, 2)


def test_asserts_inside_try_fail_when_the_test_breaks_off(sandbox: Sandbox) -> None:
    body = "".join(f"    assert f({n}) == {n + 1}\n" for n in (1, 2, 3))
    assert counts(run(sandbox, RAISING, f"try:\n{body}except KeyError:\n    pass")) == (1, 3)


def test_only_vacuous_asserts_do_not_pass(sandbox: Sandbox) -> None:
    verdict = run(sandbox, RIGHT, "candidate(1)\nassert True")
    assert not verdict.passed
    assert counts(verdict) == (0, 0)


def test_endless_comparison_is_a_failed_test(sandbox: Sandbox) -> None:
    program = "def f(n):\n    return 10 ** 30_000 if n else 1\n"
    verdict = run(
        sandbox, program, "assert f(0) == 1\nassert f(1) ** 10 ** 9 == 1\nassert f(2) == 3"
    )
    assert counts(verdict) == (1, 3)
    assert verdict.flags == ("time_limit",)
