"""Asserts that can depend on the candidate; the others give no points."""

import textwrap

from collab.sandbox.jail.asserts import instrument


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
