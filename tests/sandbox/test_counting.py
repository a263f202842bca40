"""Counting of tests, as seen through the sandbox; asserts that cannot fail do not count."""

import asyncio
import textwrap

import pytest
from support.programs.counting import RAISING, RIGHT, counts, run

from collab.errors import SandboxError
from collab.sandbox import Sandbox, Trial
from collab.sandbox.jail.asserts import instrument

WRONG = "def f(n):\n    return n\n"


def test_each_assert_counts_and_the_next_one_runs(sandbox: Sandbox) -> None:
    verdict = run(sandbox, RAISING, "assert f(1) == 2\nassert f(2) == 3\nassert f(3) == 4")
    assert counts(verdict) == (2, 3)
    assert not verdict.passed
    assert verdict.loaded
    assert verdict.error is None
    assert verdict.checks[1].error == "ValueError: two"
    assert verdict.checks[1].line == 3
    assert verdict.checks[1].source == "assert f(2) == 3"


LOOP = "for n in range(5):\n    assert (\n        candidate(n)\n        == n + 1\n    ), 'wrong'"
EXPECTS = """
try:
    candidate(2)
    assert False, "should have raised"
except ValueError:
    pass
assert candidate(1) == 2
"""
OWN_ERROR = "class Own(Exception): pass\ndef f(n): raise Own('mine')\n"
EMPTIES = "def f(n):\n    n.clear()\n    return []\n"
DEEPEST = "def f(n):\n    x = 0\n    for _ in range(64): x = [x]\n    return x\n"
CASES = {
    "each evaluation in a loop": (RIGHT, LOOP, (5, 5)),
    "each wrong evaluation in a loop": (WRONG, LOOP, (0, 5)),
    "an unreached assert": (
        "def f(n):\n    return []\n",
        "for x in f(1):\n    assert x == 1\nassert f(2) == []",
        (1, 2),
    ),
    "an unreached condition": (
        RIGHT,
        "if f(1) == 3:\n    assert False\nelse:\n    assert f(1) == 2",
        (1, 1),
    ),
    "no assert": (RIGHT, "candidate(1)", (0, 0)),
    "an expected exception": (RAISING, EXPECTS, (1, 1)),
    "a missing exception": (RIGHT, EXPECTS, (1, 2)),
    "an exception of its own": (
        OWN_ERROR,
        "try:\n    f(1)\nexcept Exception as e:\n    assert str(e) == 'mine'",
        (1, 1),
    ),
    "arguments are copies": (EMPTIES, "xs = [1, 2]\nassert candidate(xs) == xs", (0, 1)),
    "an odd answer as an argument": (DEEPEST, "assert candidate([candidate(1)]) == [2]", (0, 1)),
    "a truth": (RIGHT, "assert candidate(1)", (1, 1)),
    "a denial": (RIGHT, "assert not candidate(-1)", (1, 1)),
    "membership": (RIGHT, "assert candidate(1) in (1, 2)", (1, 1)),
    "a tolerance": (RIGHT, "assert abs(candidate(1) - 2) < 1e-9", (1, 1)),
    "a keyword": (RIGHT, "assert candidate(n=1) == 2", (1, 1)),
    "a chain": (RIGHT, "assert candidate(1) == 2 == candidate(1)", (1, 1)),
    "a lambda": (RIGHT, "assert (lambda x: x == 2)(candidate(1))", (1, 1)),
    "all of many": (RIGHT, "assert all(candidate(n) == n + 1 for n in range(9))", (1, 1)),
}


@pytest.mark.parametrize("case", CASES)
def test_asserts_are_counted(sandbox: Sandbox, case: str) -> None:
    program, test, expected = CASES[case]
    verdict = run(sandbox, program, test)
    assert counts(verdict) == expected, verdict
    assert verdict.passed == (expected[0] == expected[1] > 0)


def test_equality_shows_both_sides(sandbox: Sandbox) -> None:
    verdict = run(sandbox, WRONG, "assert candidate(1) == 2\nassert 3 == f(2), 'no'")
    assert [(c.expected, c.got) for c in verdict.checks] == [("2", "1"), ("3", "2")]
    assert verdict.checks[1].error == "no"


def test_asserting_false_fails(sandbox: Sandbox) -> None:
    verdict = run(sandbox, RIGHT, "assert True\nassert False, 'never'\nassert candidate(0) == 1")
    assert counts(verdict) == (1, 2)
    assert verdict.checks[0].error == "never"


def test_uncaught_exception_fails_one_test_and_skips_the_rest(sandbox: Sandbox) -> None:
    verdict = run(sandbox, RAISING, "assert f(1) == 2\nx = f(2)\nassert x == 3\nassert f(3) == 4")
    assert counts(verdict) == (1, 4)
    assert verdict.error == "ValueError: two"
    assert verdict.checks[-1].error == "not reached"


def test_asserts_inside_try_keep_python_semantics(sandbox: Sandbox) -> None:
    either = "try:\n    assert f(1) == 3\nexcept AssertionError:\n    assert f(1) == 2"
    assert counts(run(sandbox, RIGHT, either)) == (1, 1)
    raised = "try:\n    assert f(2) == 3\nexcept KeyError:\n    pass\nassert f(1) == 2"
    verdict = run(sandbox, RAISING, raised)
    assert counts(verdict) == (0, 2)
    assert verdict.error == "ValueError: two"


def test_prelude_helpers_are_available(sandbox: Sandbox) -> None:
    prelude = "import math\ndef twice(n):\n    return 2 * n\ndef f(n):\n    pass\n"
    verdict = run(sandbox, RIGHT, "assert f(twice(2)) == math.isqrt(25)", prelude)
    assert verdict.passed


def test_a_program_that_does_not_load_passes_nothing(sandbox: Sandbox) -> None:
    verdict = run(sandbox, "def f(n:\n", "assert True\nassert f(1) == 2")
    assert counts(verdict) == (0, 1)
    assert not verdict.loaded
    assert verdict.error == "SyntaxError: '(' was never closed (line 1, column 6)"


@pytest.mark.parametrize(
    ("program", "error"),
    [
        ("g = 1", "no function `f` is defined"),
        ("x = 1\nx.y", "AttributeError: 'int' object has no attribute 'y' (line 2)"),
        ("raise SystemExit(3)", "SystemExit: 3 (line 1)"),
        ("import no_such_thing", "ModuleNotFoundError: No module named 'no_such_thing' (line 1)"),
    ],
)
def test_load_errors_name_the_cause_and_line(sandbox: Sandbox, program: str, error: str) -> None:
    verdict = run(sandbox, program, "assert f(1) == 2")
    assert verdict.error == error
    assert not verdict.loaded


@pytest.mark.parametrize(
    ("test", "message"),
    [
        ("def check(candidate:\n", "the test does not parse: SyntaxError"),
        ("def other(candidate):\n    pass", "no function `check"),
        ("import no_such_thing\ndef check(candidate):\n    pass", "could not be loaded"),
        ("def check(candidate):\n    assert candidate(len) == 1", "builtin_function_or_method"),
        ("def check(candidate):\n    try:\n        f(len)\n    except: pass", "type builtin"),
        ("async def make():\n    pass\ndef check(candidate):\n    return make()", "coroutine"),
    ],
)
def test_broken_test_is_a_sandbox_error(sandbox: Sandbox, test: str, message: str) -> None:
    with pytest.raises(SandboxError, match=message):
        asyncio.run(sandbox.check(Trial(program=RIGHT, entry_point="f", test=test)))


def test_a_program_that_fails_while_the_test_loads_is_scored(sandbox: Sandbox) -> None:
    test = "x = f(2)\ndef check(candidate):\n    assert x == 3\n"
    verdict = asyncio.run(sandbox.check(Trial(program=RAISING, entry_point="f", test=test)))
    assert counts(verdict) == (0, 2)
    assert verdict.error == "ValueError: two"


def test_programs_may_use_the_standard_library_threads_and_a_folder(sandbox: Sandbox) -> None:
    program = """
import collections, dataclasses, heapq, itertools, math, re, statistics, tempfile, threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import List, Optional

@dataclasses.dataclass
class Box:
    value: int

def f(n):
    with tempfile.TemporaryFile() as file:
        file.write(b"x")
    with ThreadPoolExecutor(4) as pool:
        return sum(pool.map(lambda x: Box(x).value, [n, 1]))

if __name__ == "__main__":
    raise RuntimeError
"""
    assert run(sandbox, program, "assert f(1) == 2").passed


def test_programs_may_have_all_their_threads_at_once(sandbox: Sandbox) -> None:
    program = """
import threading
def f(n):
    together = threading.Barrier(15)
    threads = [threading.Thread(target=together.wait) for _ in range(14)]
    for thread in threads: thread.start()
    together.wait()
    return len(threads)
"""
    verdict = run(sandbox, program, "assert f(1) == 14")
    assert verdict.passed, verdict.checks


@pytest.mark.parametrize(
    ("imports", "pool"),
    [
        ("from multiprocessing.pool import ThreadPool", "ThreadPool(2)"),
        ("from concurrent.futures import *", "ThreadPoolExecutor(2)"),
    ],
)
def test_programs_may_use_a_pool_of_threads(sandbox: Sandbox, imports: str, pool: str) -> None:
    program = f"""
{imports}
def f(n):
    with {pool} as pool:
        return sum(pool.map(abs, [n, -1]))
"""
    verdict = run(sandbox, program, "assert f(1) == 2")
    assert verdict.passed, verdict.checks


def test_programs_may_read_their_input_by_fileinput(sandbox: Sandbox) -> None:
    program = "import fileinput\nprint(sum(map(int, fileinput.input())))\n"
    test = "def check(candidate):\n    assert candidate('1\\n2\\n') == '3\\n'\n"
    verdict = asyncio.run(sandbox.check(Trial(program=program, entry_point="__main__", test=test)))
    assert verdict.passed, verdict


def test_checks_beyond_the_listed_ones_are_counted(sandbox: Sandbox) -> None:
    verdict = run(sandbox, RIGHT, "for n in range(1500):\n    assert candidate(0) == 1")
    assert counts(verdict) == (1500, 1500)
    assert len(verdict.checks) == 1000


def telling(body: str, prelude: str = "", before: str = "") -> list[bool]:
    test = f"{before}\ndef check(candidate):\n{textwrap.indent(textwrap.dedent(body), '    ')}"
    return [a.depends_on_program for a in instrument(test, "f", prelude).assertions]


EMPTY = {
    "constant": "assert True, 'good for debugging'",
    "arithmetic": "assert 1 + 1 == 2",
    "a name": "x = [1, 2]\nassert len(x) == 2",
    "the argument afterwards": "xs = [3, 1]\ncandidate(xs)\nassert xs == [3, 1]",
    "a loop": "for n in range(9):\n    candidate(n)\n    assert n >= 0",
    "a function of the test": "def twice(n):\n    return 2 * n\nassert twice(2) == 4",
    "a class of the test": "class C:\n    x = 1\nassert C().x == 1",
    "callable": "assert callable(candidate)",
    "not none": "assert candidate is not None and f",
    "its name": "assert candidate.__name__ == 'f'",
    "after a call": "x = candidate(1)\ny = 3\nassert y == 3",
    "an inner function": "def inner(n):\n    assert n == 1\ninner(1)\ncandidate(2)",
    "a module": "import math\nassert math.isqrt(9) == 3",
    "a branch of its own": "if 1 < 2:\n    assert True",
}


def test_assert_independent_of_the_candidate_is_vacuous() -> None:
    assert [name for name, body in EMPTY.items() if any(telling(body))] == []


TELLING = {
    "a call": "assert candidate(1) == 2",
    "by name": "assert f(1) == 2",
    "a value": "x = candidate(1)\nassert x == 2",
    "a part of it": "a, *b = candidate(1)\nassert b == []",
    "collected": "out = []\nfor n in range(3):\n    out.append(f(n))\nassert out == [1, 2, 3]",
    "by another function": "import heapq\nh = []\nheapq.heappush(h, f(1))\nassert h == [2]",
    "by key": "d = {}\nd['x'] = f(1)\nassert d['x'] == 2",
    "by attribute": "class C: pass\nc = C()\nc.x = f(1)\nassert c.x == 2",
    "added": "x = 0\nx += f(1)\nassert x == 2",
    "walrus": "print(x := f(1))\nassert x == 2",
    "a comprehension": "xs = [f(n) for n in range(3)]\nassert xs == [1, 2, 3]",
    "a loop over it": "for x in f(3):\n    assert x > 0",
    "passed on": "assert list(map(candidate, [1])) == [2]",
    "under another name": "g = candidate\nassert g(1) == 2",
    "a helper": "def at(n):\n    return f(n)\nassert at(1) == 2",
    "a helper defined later": (
        "def outer(n):\n    return inner(n)\ndef inner(n):\n    return f(n)\nassert outer(1) == 2"
    ),
    "a parameter": "def same(a, b):\n    assert a == b\nsame(f(1), 2)",
    "a parameter of one passed on": (
        "def one(x):\n    assert x == 2\nfor _ in map(one, [f(1)]): pass"
    ),
    "a lambda": "same = lambda a, b: a == b\nx = same(f(1), 2)\nassert x",
    "a flag set when it raises": (
        "ok = False\ntry:\n    f(1)\nexcept ValueError:\n    ok = True\nassert ok"
    ),
    "what it raises": "try:\n    f(1)\nexcept ValueError as e:\n    assert str(e)",
    "a handler": "try:\n    f(1)\nexcept ValueError:\n    assert True",
    "a flag set below if": "x = 0\nif f(1) == 2:\n    x = 1\nassert x == 1",
    "where a loop stops": "for n in range(9):\n    if f(n): break\nassert n == 3",
    "a while": "n = 0\nwhile f(n) < 9:\n    n += 1\nassert n == 8",
    "suppressed": (
        "from contextlib import suppress\nok = True\nwith suppress(ValueError):\n"
        "    f(1)\n    ok = False\nassert ok"
    ),
    "global": "def go():\n    global r\n    r = f(1)\ngo()\nassert r == 2",
    "a method": "class T:\n    def at(self, n):\n        return f(n)\nassert T().at(1) == 2",
    "evaluated": "assert eval('f(1)') == 2",
    "matched": "match f(1):\n    case [x]:\n        assert x == 2",
    "a dictionary of functions": "t = {'f': candidate}\nassert t['f'](1) == 2",
    "called as a method": "assert candidate.__call__(1) == 2",
    "decorated": (
        "import functools\n@functools.cache\ndef g(n):\n    return candidate(n)\nassert g(1) == 2"
    ),
    "yielded": "def g():\n    yield f(1)\nassert [*g()] == [2]",
}


def test_assert_that_may_depend_on_the_candidate_counts() -> None:
    assert [name for name, body in TELLING.items() if not all(telling(body))] == []


def test_dependence_is_traced_through_module_level_and_prelude() -> None:
    assert telling("assert x == 2", before="x = f(1)") == [True]
    prelude = "def f(n):\n    pass\n\ndef decoded(n):\n    return f(n)\n"
    assert telling("assert decoded(1) == 2", prelude) == [True]
    assert telling("assert decoded(1) == 2", "def decoded(n):\n    return n") == [False]


def test_the_parameter_of_check_may_have_any_name() -> None:
    [assertion] = instrument("def check(fn):\n    x = fn(1)\n    assert x == 2", "f").assertions
    assert assertion.depends_on_program
