"""Pocket code: programs of two functions of one line each: `aux`, and `main`, which calls it.

A problem has two steps, so the program is right only if both agents are. A small model can write
each step after a few worked examples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Any, Literal

CONSTANTS = range(2, 10)
SHOWN_TESTS = 2
"""Number of tests that the prompt shows as examples."""

TEST_ARGUMENTS = {
    "number": (0, 1, 2, 3, 5, 7, 10, -1, -4, 12),
    "list": ([1], [2, 1], [3, 1, 2], [5, 5], [0, -1, 4], [9, 2, 7, 4], [-3, -8], [1, 2, 3, 4, 5]),
    "text": ("a", "Bob", "hello", "xY", "abc", "Go", "tree", "Zebra"),
}
"""Arguments for testing programs, by the type that the helper takes."""


@dataclass(frozen=True)
class Calculation:
    """A function of one argument, in words and in Python."""

    words: str
    """Description, with `{}` for the argument."""
    code: str
    """Python expression, with `{}` for the argument."""
    takes: str
    gives: str


def pocket_code(random: Random, *, level: Literal[1, 2, 3] = 1) -> Iterator[dict[str, Any]]:
    """Yield all problems of a level, shuffled: 1 is about numbers, 2 about lists, 3 about strings.

    There are 658 of level 1, 161 of level 2 and 50 of level 3.
    """
    pairs = [pair for pair in _pairs(level) if _needs_both_steps(*pair)]
    random.shuffle(pairs)
    for number, pair in enumerate(pairs):
        yield _row(number, *pair)


def _number_steps() -> Iterator[Calculation]:
    for k in CONSTANTS:
        yield Calculation(f"adds {k} to {{}}", f"{{}} + {k}", "number", "number")
        yield Calculation(f"subtracts {k} from {{}}", f"{{}} - {k}", "number", "number")
        yield Calculation(f"multiplies {{}} by {k}", f"{{}} * {k}", "number", "number")
    yield Calculation("squares {}", "{} ** 2", "number", "number")
    yield Calculation("negates {}", "-{}", "number", "number")


LIST_STEPS = (
    Calculation("adds up {}", "sum({})", "list", "number"),
    Calculation("takes the largest of {}", "max({})", "list", "number"),
    Calculation("takes the smallest of {}", "min({})", "list", "number"),
    Calculation("counts the items of {}", "len({})", "list", "number"),
    Calculation("sorts {}", "sorted({})", "list", "list"),
    Calculation("reverses {}", "{}[::-1]", "list", "list"),
    Calculation("takes the first item of {}", "{}[0]", "list", "number"),
    Calculation("takes the last item of {}", "{}[-1]", "list", "number"),
)
TEXT_STEPS = (
    Calculation("turns {} into capital letters", "{}.upper()", "text", "text"),
    Calculation("turns {} into small letters", "{}.lower()", "text", "text"),
    Calculation("reverses {}", "{}[::-1]", "text", "text"),
    Calculation("counts the letters of {}", "len({})", "text", "number"),
    Calculation("repeats {} twice", "{} * 2", "text", "text"),
    Calculation("takes the first letter of {}", "{}[0]", "text", "text"),
    Calculation("takes the last letter of {}", "{}[-1]", "text", "text"),
)
LEVELS: dict[int, Sequence[Calculation]] = {
    1: tuple(_number_steps()),
    2: (*_number_steps(), *LIST_STEPS),
    3: (*_number_steps(), *LIST_STEPS, *TEXT_STEPS),
}


def _pairs(level: int) -> Iterator[tuple[Calculation, Calculation]]:
    """Yield pairs of steps, the first of which takes the level's type."""
    taken = {1: "number", 2: "list", 3: "text"}[level]
    for first, then in product(LEVELS[level], repeat=2):
        if first.takes == taken and first.gives == then.takes:
            yield first, then


def _needs_both_steps(first: Calculation, then: Calculation) -> bool:
    """Return True unless the result is the argument, that of one step alone, or a constant."""
    arguments = TEST_ARGUMENTS[first.takes]
    whole = [_value(then, _value(first, x)) for x in arguments]
    alone = [_value(first, x) for x in arguments]
    other = [_value(then, x) for x in arguments] if then.takes == first.takes else []
    is_constant = all(value == whole[0] for value in whole)
    return not is_constant and whole not in (list(arguments), alone, other)


def _value(step: Calculation, argument: Any) -> Any:
    function: Callable[[Any], Any] = eval(f"lambda x: {step.code.format('x')}")
    return function(argument)


def _row(number: int, first: Calculation, then: Calculation) -> dict[str, Any]:
    helper, rest = first.words.format("x"), then.words.format("what aux gives")
    arguments = [repr(x) for x in TEST_ARGUMENTS[first.takes]]
    results = [repr(_value(then, _value(first, x))) for x in TEST_ARGUMENTS[first.takes]]
    both = list(zip(arguments, results, strict=True))
    shown = "".join(f"    >>> main({x})\n    {r}\n" for x, r in both[:SHOWN_TESTS])
    asserts = [f"    assert candidate({x}) == {r}" for x, r in both]
    nested = then.code.format(f"({first.code.format('x')})")
    return {
        "task_id": f"pocket-code/{number}",
        "prompt": f'def main(x):\n    """aux {helper}; main {rest}.\n\n{shown}    """\n',
        "entry_point": "main",
        "helper": helper,
        "rest": rest,
        "whole": f"{helper} and {then.words.format('the result')}",
        "test": "\n".join(["def check(candidate):", *asserts, ""]),
        "canonical_solution": f"    return {nested}\n",
        "canonical_aux": f"def aux(x):\n    return {first.code.format('x')}\n",
        "canonical_main": f"def main(x):\n    return {then.code.format('aux(x)')}\n",
    }


def two_files(random: Random, *, level: Literal[1, 2, 3] = 2) -> Iterator[dict[str, Any]]:
    """Yield the problems of pocket code with each half in a separate file.

    `step` is in `step.py`, and `main` in `main.py`. `helper` and `rest` describe them.
    """
    for number, row in enumerate(pocket_code(random, level=level)):
        texts = {key: _rename_aux(row[key]) for key in ("prompt", "rest", "whole")}
        yield {
            **texts,
            "task_id": f"two-files/{number}",
            "entry_point": "main",
            "helper": row["helper"],
            "test": row["test"],
            "canonical_solution": row["canonical_solution"],
            "canonical_step": f"# file: step.py\n{_rename_aux(row['canonical_aux'])}",
            "canonical_main": "# file: main.py\nfrom step import step\n\n\n"
            + _rename_aux(row["canonical_main"]),
        }


def _rename_aux(text: str) -> str:
    return text.replace("aux", "step")
