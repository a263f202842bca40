"""Tests of a class: transferable values, and cheats."""

import asyncio

import pytest
from support.classes.cheats import ATTACKS
from support.classes.shelf import ADD, HEAD, MOVE, N_TESTS, SHELF, SOLUTION, SORT, TOTAL

from collab.errors import SandboxError
from collab.recipe.sandbox import SandboxSpec
from collab.sandbox import Sandbox, Trial, Verdict
from collab.tasks.formats.classes import classeval

ROW = classeval(SHELF)


def shelf_trial(program: str) -> Trial:
    return Trial(program=program, entry_point=ROW["entry_point"], test=ROW["test"])


def verdict_of(sandbox: Sandbox, test: str, program: str = SOLUTION) -> Verdict:
    """Check a program with a test of a class with the shelf's methods and more."""
    like = "class Shelf:\n" + "".join(
        f"    def {name}(self): ...\n" for name in ("add", "total", "move", "sort", "__iter__")
    )
    body = "\n".join(f"    {line}" for line in test.split("\n"))
    text = f"{like}\n\ndef check(candidate):\n{body}\n"
    return asyncio.run(sandbox.check(Trial(program=program, entry_point="class Shelf", test=text)))


def test_a_solution_passes_and_each_test_method_counts_as_one(sandbox: Sandbox) -> None:
    verdict = asyncio.run(sandbox.check(shelf_trial(SOLUTION)))
    assert verdict.passed, verdict
    assert (verdict.tests.passed, verdict.tests.total) == (N_TESTS, N_TESTS)


@pytest.mark.parametrize(
    ("program", "right"),
    [
        (HEAD + TOTAL, 2),
        (HEAD + TOTAL + SORT, 3),
        (HEAD + ADD + TOTAL, 5),
        (HEAD + ADD + TOTAL + SORT, 6),
        (HEAD + "    total = None\n" + SORT, 1),
        (HEAD + ADD + TOTAL + MOVE + SORT.replace("@staticmethod", "@classmethod"), 6),
    ],
)
def test_methods_are_paid_one_by_one(sandbox: Sandbox, program: str, right: int) -> None:
    verdict = asyncio.run(sandbox.check(shelf_trial(program)))
    assert not verdict.passed
    assert (verdict.tests.passed, verdict.tests.total) == (right, N_TESTS)


@pytest.fixture(scope="module")
def verdicts() -> dict[str, Verdict]:
    async def run() -> list[Verdict]:
        async with Sandbox(SandboxSpec(seconds=1, workers=2)) as sandbox:
            programs = [*ATTACKS.values(), SOLUTION]
            return list(await asyncio.gather(*(sandbox.check(shelf_trial(p)) for p in programs)))

    return dict(zip([*ATTACKS, "honest"], asyncio.run(run()), strict=True))


def test_cheats_earn_nothing(verdicts: dict[str, Verdict]) -> None:
    for name in ATTACKS:
        verdict = verdicts[name]
        assert not verdict.passed, name
        assert (verdict.tests.passed, verdict.tests.total) == (0, N_TESTS), (name, verdict.checks)
        assert verdict.seconds < 2.5, name


def test_corpus_is_large_and_an_honest_program_passes(verdicts: dict[str, Verdict]) -> None:
    assert len(ATTACKS) >= 50
    assert verdicts["honest"].passed


def test_values_are_changed_on_both_sides(sandbox: Sandbox) -> None:
    verdict = verdict_of(
        sandbox,
        "shelf = candidate(9)\n"
        "shelf.boxes['nuts'] = 2\n"
        "boxes = shelf.boxes\n"
        "boxes.update(bolts=1)\n"
        "assert shelf.total() == 3\n"
        "assert shelf.boxes == {'nuts': 2, 'bolts': 1}\n"
        "names = ['bb', 'a']\n"
        "Shelf.sort(names=names)\n"
        "assert (shelf.total(), names) == (3, ['a', 'bb'])\n"
        "Shelf.limit = 4\n"
        "assert (shelf.limit, Shelf.limit) == (4, 4)\n"
        "assert isinstance(shelf, Shelf) and shelf.total() == 3\n"
        "assert not hasattr(shelf, 'nothing') and shelf.total() == 3",
    )
    assert verdict.passed, verdict.checks


def test_object_may_be_iterated(sandbox: Sandbox) -> None:
    program = SOLUTION + "\n    def __iter__(self):\n        return iter(self.boxes)\n"
    test = "shelf = candidate(9)\nshelf.add('nuts', 1)\nassert list(shelf) == ['nuts']"
    assert verdict_of(sandbox, test, program).passed


def test_dates_and_types_are_transferred(sandbox: Sandbox) -> None:
    test = (
        "import datetime, decimal\nshelf = candidate(9)\n"
        "shelf.boxes = {1: datetime.date(2024, 2, 29), 2: int, 3: decimal.Decimal('1.10')}\n"
        "assert shelf.boxes == {1: datetime.date(2024, 2, 29), 2: int, 3: decimal.Decimal('1.1')}"
    )
    assert verdict_of(sandbox, test).passed


@pytest.mark.parametrize(
    ("test", "message"),
    [
        ("assert candidate(len).total() == 0", "a value of type builtin_function_or_method"),
        ("assert candidate([candidate(1)]).total() == 0", "a value of type Shelf"),
        ("boxes = candidate(1).boxes\nboxes[1] = len\nassert Shelf.sort([]) == 0", "of type"),
    ],
)
def test_untransferable_value_is_a_test_error(sandbox: Sandbox, test: str, message: str) -> None:
    with pytest.raises(SandboxError, match=message):
        verdict_of(sandbox, test)


def test_class_test_must_define_the_class(sandbox: Sandbox) -> None:
    test = "def check(candidate):\n    assert candidate(1).total() == 0\n"
    with pytest.raises(SandboxError, match="defines no class 'Shelf'"):
        asyncio.run(sandbox.check(Trial(program=SOLUTION, entry_point="class Shelf", test=test)))
