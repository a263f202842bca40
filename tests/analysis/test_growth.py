"""The analysis takes time proportional to the program's size, for every construct."""

import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from support.shares import one_in

from collab.analysis import helper_use

SMALL = 150
MAX_GROWTH = 2.4
"""Growth of the number of steps when the size doubles; a visible quadratic part would give 4."""


def each(text: str, n: int, joint: str = "") -> str:
    """`text` repeated n times, with # replaced by the number and ~ by the next one."""
    return joint.join(text.replace("#", str(i)).replace("~", str(i + 1)) for i in range(n))


def nested(before: str, within: str, behind: str, depth: int = 60) -> str:
    return before * depth + within + behind * depth


CALLS = "aux(#),"
CONSTRUCTS: dict[str, Callable[[int], str]] = {
    "a, b, ... = tuple([...])": lambda n: (
        f"def main(x):\n {each('a#,', n)} = tuple([{each('b#,', n)}aux(x)])\n return a0"
    ),
    "for a, b, ... in [...]": lambda n: (
        f"def main(x):\n for {each('a#,', n)} in [{each(CALLS, n)}]: pass\n return a0"
    ),
    "with": lambda n: f"def main(x):\n with {each('aux(#) as a#', n, ',')}:\n  return a0",
    "one name defined again and again": lambda n: (
        f"{each('def f(x): return f(x)', n, chr(10))}\ndef main(x):\n return f(aux(x))"
    ),
    "functions that call the next": lambda n: (
        f"{each('def f#(x): return f~(x)', n, chr(10))}\n"
        f"def f{n}(x): return aux(x)\ndef main(x):\n return f0(x)"
    ),
    "methods that call the next": lambda n: (
        f"class C:\n {each('def m#(self): return self.m~(aux(#))', n, chr(10) + ' ')}\n"
        "def main(x):\n return C().m0()"
    ),
    "copies of the value": lambda n: (
        f"def main(x):\n y0=aux(x)\n {each('y~=y#', n, chr(10) + ' ')}\n return y{n}"
    ),
    "one of many calls, returned under many names": lambda n: (
        f"def main(x):\n {each('y=aux(#)', n, chr(10) + ' ')}\n {each('z#=y', n, chr(10) + ' ')}\n"
        f" {each('if x: return z#', n, chr(10) + ' ')}"
    ),
    "many returns": lambda n: f"def main(x):\n {each('if x: return aux(#)', n, chr(10) + ' ')}",
    "match": lambda n: (
        f"def main(x):\n match x:\n  {each('case # if aux(#): return #', n, chr(10) + '  ')}"
    ),
    "own arguments": lambda n: (
        f"def f({each('a#,', n)}): return a0\ndef main(x):\n return f({each(CALLS, n)})"
    ),
    "deep calls": lambda n: f"def main(x):\n return {nested('x.f(', each(CALLS, n), ')')}",
    "deep comprehensions": lambda n: (
        f"def main(x):\n return {nested('[y for y in ', f'[{each(CALLS, n)}]', ']')}"
    ),
    "deep branches": lambda n: (
        "def main(x):\n"
        + "".join(" " * (i + 1) + "if x:\n" for i in range(40))
        + " " * 42
        + each("y=aux(#)", n, "\n" + " " * 42)
        + "\n return y"
    ),
}


def steps(work: Callable[[], object]) -> int:
    """Count the lines and calls that `work` runs, a time measure that ignores the machine."""
    count = 0

    def trace(_frame: FrameType, _event: str, _argument: Any) -> Any:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("name", one_in(3, CONSTRUCTS))
def test_doubling_the_program_about_doubles_the_steps(name: str) -> None:
    make = CONSTRUCTS[name]
    once, twice = make(SMALL), make(2 * SMALL)

    def work(source: str) -> Callable[[], object]:
        return lambda: helper_use(source, "main", "aux")

    assert steps(work(twice)) < MAX_GROWTH * steps(work(once))


@pytest.mark.parametrize("name", one_in(3, CONSTRUCTS))
def test_the_largest_programs_are_analysed_in_seconds(name: str) -> None:
    make, size = CONSTRUCTS[name], 64
    while len(make(2 * size)) < 50_000:
        size *= 2
    started = time.thread_time()
    assert helper_use(make(size), "main", "aux").reason
    assert time.thread_time() - started < 10
