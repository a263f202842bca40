"""A class cannot change a test's expected values by changing its arguments."""

import ast
import asyncio
from typing import Any

import pytest
from support.classes.shelf import SHELF, SOLUTION

from collab.sandbox import Sandbox, Trial, Verdict
from collab.sandbox.jail.classes.expected import compute_expected_first
from collab.tasks.formats.classes import classeval

EMPTIES = """
class Shelf:
    def __init__(self, *given):
        self.room = 0

    def sort(self, names, *more):
        names.clear()
        return []

    def total(self, names, *more):
        names.clear()
        return 0

    def count(self, table):
        table.clear()
        return {}

    def most(self, names):
        names[:] = [0]
        return 0
"""
LIKE = "class Shelf:\n" + "".join(
    f"    def {name}(self): ...\n" for name in ("sort", "total", "count", "most")
)


def verdict_of(sandbox: Sandbox, body: str, program: str = EMPTIES) -> Verdict:
    lines = "\n".join(f"    {line}" for line in body.split("\n"))
    test = f"import math, unittest\n{LIKE}\n\ndef check(candidate):\n{lines}\n"
    return asyncio.run(sandbox.check(Trial(program=program, entry_point="class Shelf", test=test)))


def test_a_class_that_empties_its_argument_earns_nothing(sandbox: Sandbox) -> None:
    verdict = verdict_of(
        sandbox, "data = [3, 1, 2]\nshelf = candidate(9)\nassert shelf.sort(data) == sorted(data)"
    )
    assert verdict.tests.passed == 0, verdict.checks


ATTACKS = {
    "a name of the class": "d = [2, 1]\nassert Shelf(1).sort(d) == sorted(d)",
    "a sum": "d = [2, 1]\ns = Shelf(1)\nassert s.total(d) == sum(d)",
    "a length": "d = [2, 1]\ns = Shelf(1)\nassert s.total(d) == len(d)",
    "a set": "d = {2, 1}\ns = Shelf(1)\nassert s.total(d) == sum(x for x in d)",
    "a dictionary": "d = {'a': 1}\ns = Shelf(1)\nassert s.count(d) == {k: d[k] for k in d}",
    "an order": "d = [2, 1]\ns = Shelf(1)\nassert s.total(d) >= sum(d)",
    "a difference": "d = [2, 1]\ns = Shelf(1)\nassert not s.total(d) != sum(d)",
    "in a loop": "d = [2, 1]\nfor s in [Shelf(1)]:\n    assert s.most(d) == max(d)",
    "close": "d = [2, 1]\ns = Shelf(1)\nassert math.isclose(s.total(d), sum(d))",
    "a helper": "def f():\n    return Shelf(2)\nd = [2]\ns = f()\nassert s.total(d) == sum(d)",
    "by keyword": "d = [2, 1]\ns = Shelf(1)\nassert s.sort(names=d) == [x for x in sorted(d)]",
    "within bool": "d = [2, 1]\ns = Shelf(1)\nassert bool(s.total(d) == sum(d))",
    "two of them": "d = [2, 1]\na, b = Shelf(1), Shelf(2)\nassert b.sort(d) == sorted(d)",
    "unittest": "d = [2, 1]\ns = Shelf(1)\ncase = unittest.TestCase()\n"
    "assert case.assertEqual(s.sort(d), sorted(d)) is None",
    "unittest with a message": "d = [2, 1]\ns = Shelf(1)\ncase = unittest.TestCase()\n"
    "assert case.assertAlmostEqual(s.total(d), sum(d), 2, 'no') is None",
}


@pytest.mark.parametrize("body", ATTACKS.values(), ids=ATTACKS)
def test_changing_an_argument_earns_nothing(sandbox: Sandbox, body: str) -> None:
    assert verdict_of(sandbox, body).tests.passed == 0


def test_classeval_tests_evaluate_the_expected_value_first(sandbox: Sandbox) -> None:
    test = (
        "import unittest\n\nclass ShelfTest(unittest.TestCase):\n"
        "    def setUp(self):\n        self.shelf = Shelf(9)\n"
        "    def test_sort(self):\n        names = ['bb', 'a']\n"
        "        self.assertEqual(self.shelf.sort(names), len(names))\n"
    )
    row: dict[str, Any] = classeval({**SHELF, "test": test, "test_classes": ["ShelfTest"]})
    cheat = "class Shelf:\n    def __init__(self, room): ...\n    def sort(self, names):\n"
    for program, passed in [
        (f"{cheat}        names.clear()\n        return 0\n", 0),
        (SOLUTION, 1),
    ]:
        trial = Trial(program=program, entry_point=row["entry_point"], test=row["test"])
        assert asyncio.run(sandbox.check(trial)).tests.passed == passed


def test_intended_changes_of_arguments_are_visible(sandbox: Sandbox) -> None:
    body = (
        "names = ['bb', 'a']\nshelf = candidate(9)\n"
        "assert (shelf.sort(names), names) == (2, ['a', 'bb'])\n"
        "names.append('ccc')\n"
        "assert shelf.sort(names) == 3 and names[-1] == 'ccc'"
    )
    verdict = verdict_of(sandbox, body, SOLUTION)
    assert verdict.passed, verdict.checks


@pytest.mark.parametrize(
    ("test", "ordered"),
    [
        ("assert s.f(d) == sorted(d)", "assert sorted(d) == s.f(d)"),
        ("assert s.f(d) < d[0]", "assert d[0] > s.f(d)"),
        ("assert s.f(d) == 3", "assert s.f(d) == 3"),
        ("assert s.f(d) == d", "assert s.f(d) == d"),
        ("assert sorted(d) == s.f(d)", "assert sorted(d) == s.f(d)"),
        ("assert s.f(d) == s.g(d)", "assert s.f(d) == s.g(d)"),
        ("assert 0 < s.f(d) < len(d)", "assert 0 < s.f(d) < len(d)"),
        ("c.assertEqual(s.f(d), len(d), 'no')", "c.assertEqual(*(len(d), s.f(d))[::-1], 'no')"),
        ("x = s.f(d)\nassert x == len(d)", "x = s.f(d)\nassert x == len(d)"),
    ],
)
def test_expected_value_is_moved_first(test: str, ordered: str) -> None:
    tree = ast.parse(f"s = Shelf()\n{test}")
    assert ast.unparse(compute_expected_first(tree, ["Shelf"])) == f"s = Shelf()\n{ordered}"
