"""Trials of every kind and their full verdicts, to compare executors."""

import asyncio
from typing import Any

from collab.recipe.sandbox import SandboxSpec
from collab.sandbox import Sandbox, Treatment, Trial

_TEST = """
def check(candidate):
    for n in range(4):
        assert candidate(n) == [n], "not the list"
    assert len(set(candidate(9))) == 1
    return str(candidate(2))
"""
_UNORDERED = """
def check(candidate):
    assert candidate(0) == ["amber", "blue", "cyan", "grey", "pink", "red"]
    assert list(candidate(1)) == sorted(candidate(1))
    assert candidate(2) == {"violet"}
"""


def _trial(program: str, test: str = _TEST, treatment: Treatment | None = None) -> Trial:
    return Trial(program=program, entry_point="f", test=test, treatment=treatment)


JOBS = (
    _trial("def f(n):\n    return [n]\n"),
    _trial("def f(n):\n    return [n] if n < 2 else [n + 1]\n"),
    _trial("def f(n):\n    raise ValueError({'one', 'two', 'three', 'four'})\n"),
    _trial("def f(n:\n"),
    _trial("import os\ndef f(n):\n    return [os.fork()]\n"),
    _trial("def f(n):\n    return object()\n"),
    # The order of a set of strings depends on the hash seed.
    _trial(
        "def f(n):\n    return list({'red', 'blue', 'grey', 'cyan', 'pink', 'amber'})\n", _UNORDERED
    ),
    _trial("def f(n):\n    return {'red', 'blue', 'grey', 'cyan', 'pink', 'amber'}\n", _UNORDERED),
    _trial(
        "def g(n):\n    return n\n\ndef f(n):\n    return [g(n)]\n",
        treatment=Treatment(function="g", values="other"),
    ),
)


def verdicts(spec: SandboxSpec) -> list[dict[str, Any]]:
    """Verdicts of `spec`'s sandbox on all jobs at the same time, without their times."""

    async def main() -> list[dict[str, Any]]:
        async with Sandbox(spec) as sandbox:
            found = await asyncio.gather(*(sandbox.check(job) for job in JOBS * 2))
        return [verdict.model_dump(exclude={"seconds"}) for verdict in found]

    return asyncio.run(main())
