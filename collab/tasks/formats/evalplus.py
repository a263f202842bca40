"""HumanEval+ and MBPP+ (EvalPlus, arXiv 2305.01210): published problems with many more tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from collab.errors import TaskError
from collab.tasks.formats.fields import field
from collab.tasks.formats.mbpp import mbpp

NUMPY_IMPORT = "import numpy as np"
NUMPY_STAND_IN = '''\
class np:
    """The part of numpy that EvalPlus's tests use, for a sandbox without it."""

    ndarray = type("ndarray", (), {})
    float64 = float32 = float

    @staticmethod
    def allclose(out, exp, rtol, atol):
        if isinstance(exp, (list, tuple)):
            same = len(out) == len(exp)
            return same and all(np.allclose(a, b, rtol, atol) for a, b in zip(out, exp))
        return out == exp or abs(out - exp) <= atol + rtol * abs(exp) < float("inf")


def extreme(value):
    """True if an answer is larger than a sandbox hands over: 100,000 bits, characters or items."""
    if isinstance(value, int):
        return value.bit_length() > 100_000
    return hasattr(value, "__len__") and len(value) > 100_000
'''
_LOOPS = {
    "for i, (inp, exp) in enumerate(zip(inputs, results)):\n": "exp",
    "for i, inp in enumerate(inputs):\n": "ref_func(*inp)",
}
"""Loops of a test over its inputs, each with its name for the right answer."""


def evalplus(row: Mapping[str, Any], shown: int = 0) -> dict[str, Any]:
    """Convert a row of `evalplus/humanevalplus` or `evalplus/mbppplus`, with EvalPlus's own tests.

    Args:
        shown: number of asserts that the prompt of an MBPP row shows; published scores show 1.

    Raises:
        TaskError: a field is missing, or the tests are not in EvalPlus's form.
    """
    test = _make_runnable(field(row, str, "test"))
    made = mbpp(row, shown=shown)
    is_humaneval = made == row
    return {**made, "test": test if is_humaneval else _make_test(test, made["entry_point"])}


def _make_runnable(test: str) -> str:
    """Return the test without numpy, and without inputs whose right answer is extremely large."""
    test = f"{NUMPY_STAND_IN}\n\n{test.replace(NUMPY_IMPORT, '')}"
    for loop, right in _LOOPS.items():
        head, separator, tail = test.partition(loop)
        margin = " " * (len(head) - len(head.rstrip(" ")) + 4)
        if separator:
            test = f"{head}{loop}{margin}if extreme({right}):\n{margin}    continue\n{tail}"
    return test


def _make_test(test: str, entry_point: str) -> str:
    """Return MBPP+'s test, a script that calls the function by its name, as a function `check`."""
    before, begins, script = test.rpartition("\ninputs = ")
    if not begins:
        raise TaskError("the field 'test' has no line 'inputs = [...]'; tests of MBPP+ need one")
    lines = [f"{entry_point} = candidate", *f"inputs = {script}".strip().split("\n")]
    return "\n    ".join([f"{before}\n\n\ndef check(candidate):", *lines]) + "\n"
