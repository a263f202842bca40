"""Counts the tests that a program passes."""

import asyncio

from collab.sandbox import Sandbox, Trial, Verdict

RIGHT = "def f(n):\n    return n + 1\n"
RAISING = "def f(n):\n    if n == 2:\n        raise ValueError('two')\n    return n + 1\n"


def run(sandbox: Sandbox, program: str, test: str, prelude: str = "") -> Verdict:
    lines = "".join(f"    {line}\n" for line in test.strip("\n").splitlines())
    trial = Trial(
        program=program, entry_point="f", test=f"def check(candidate):\n{lines}", prelude=prelude
    )
    return asyncio.run(sandbox.check(trial))


def counts(verdict: Verdict) -> tuple[int, int]:
    return verdict.tests.passed, verdict.tests.total
