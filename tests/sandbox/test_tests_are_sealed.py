"""Tests may come from anywhere, so they also run sealed, and their output is dropped."""

import ast
import asyncio
import os
from itertools import product
from pathlib import Path

import pytest
from support.shares import one_in, one_row_in

from collab.errors import SandboxError
from collab.sandbox import Sandbox, Trial, Verdict

RIGHT = "def f(n):\n    return n + 1\n"
CHECK = "def check(candidate):\n    assert candidate(1) == 2\n"


def run(sandbox: Sandbox, test: str, program: str = RIGHT, prelude: str = "") -> Verdict:
    trial = Trial(program=program, entry_point="f", test=test, prelude=prelude)
    return asyncio.run(sandbox.check(trial))


REACHES = {
    "reads a file": "open('/etc/passwd').read()",
    "lists the root": "import os\nos.listdir('/')",
    "reads the interpreter's files": "import os\nopen(os.__file__).read()",
    "reads /proc": "open('/proc/self/environ').read()",
    "writes a file": "open('/tmp/judge_test_mark', 'w')",
    "writes below the working folder": "open('judge_test_mark', 'w')",
    "opens a socket": "import socket\nsocket.socket().connect(('127.0.0.1', 80))",
    "forks": "import os\nos.fork()",
    "runs a program": "import os\nos.execv('/bin/true', ['true'])",
    "ends its zygote": "import os\nos.kill(os.getppid(), 9)",
    "traces": "import ctypes\nctypes.CDLL(None).ptrace(16, 1, 0, 0)",
    "imports what is not there": "import no_such_module",
    "takes all memory": "x = bytearray(1 << 33)",
}


@pytest.mark.parametrize(("reach", "place"), one_row_in(3, product(REACHES, ["test", "prelude"])))
def test_tests_cannot_reach_outside_the_sandbox(sandbox: Sandbox, reach: str, place: str) -> None:
    code = REACHES[reach]
    with pytest.raises(SandboxError):
        run(sandbox, f"{code}\n{CHECK}") if place == "test" else run(sandbox, CHECK, prelude=code)
    assert not Path("/tmp/judge_test_mark").exists()
    assert run(sandbox, CHECK).passed


@pytest.mark.parametrize(
    "reach",
    one_in(3, ["__import__('os')._exit(0)", "while True: pass", "__import__('time').sleep(99)"]),
)
def test_endless_test_is_ended(sandbox: Sandbox, reach: str) -> None:
    verdict = run(sandbox, f"{CHECK}    {reach}\n")
    assert not verdict.passed
    assert verdict.tests.passed < verdict.tests.total
    assert verdict.seconds < 3
    assert run(sandbox, CHECK).passed


def test_missing_module_names_where_to_look(sandbox: Sandbox) -> None:
    with pytest.raises(SandboxError, match=r"No module named 'numpy'.*preload\.py"):
        run(sandbox, f"import numpy\n{CHECK}")
    with pytest.raises(SandboxError, match=r"No module named 'numpy'.*preload\.py"):
        run(sandbox, "def check(candidate):\n    import numpy\n")


def test_denied_call_by_the_test_is_a_sandbox_error(sandbox: Sandbox) -> None:
    with pytest.raises(SandboxError, match="the test was killed at a denied system call"):
        run(sandbox, f"import os\nos.fork()\n{CHECK}")
    later = (
        "import os\ndef check(candidate):\n    if candidate(1) != 2: os.fork()\n    assert f(1)\n"
    )
    assert run(sandbox, later).passed
    verdict = run(sandbox, later, "def f(n):\n    return n\n")
    assert not verdict.passed
    assert verdict.flags == ("test_runner_died",)


def test_state_does_not_leak_between_tests(sandbox: Sandbox) -> None:
    leaving = "import builtins, math, sys\nbuiltins.mark = math.mark = sys.mark = 1\n"
    finding = "import builtins, math, sys\nassert not hasattr(builtins, 'mark') and f(1)\n"
    assert run(sandbox, leaving + CHECK).passed
    assert run(sandbox, f"{finding}{CHECK}").passed


def test_tests_and_programs_may_print(sandbox: Sandbox) -> None:
    test = "def check(candidate):\n    print('x' * 10**6)\n    assert candidate(1) == 2\n"
    program = """
import os, sys
def f(n):
    print("x" * 10**6)
    print("y", file=sys.stderr, flush=True)
    os.write(1, b"z" * 10**6)
    try:
        input()
    except EOFError:
        return n + 1
"""
    assert run(sandbox, test, program).passed


INODES = """
import os, stat
def f(n):
    found = []
    for fd in range(256):
        try:
            status = os.fstat(fd)
        except OSError:
            continue
        found.append((fd, stat.S_ISFIFO(status.st_mode), status.st_dev, status.st_ino))
    return found
"""


def test_every_descriptor_of_a_program_is_its_own_pipe(sandbox: Sandbox) -> None:
    test = """
def check(candidate):
    x = candidate(1)
    assert [fd for fd, *_ in x] == [*range(5)]
    assert all(pipe for _, pipe, *_ in x)
    raise ValueError([y[2:] for y in x])
"""
    pipes: list[set[tuple[int, int]]] = []
    for _ in range(2):
        verdict = run(sandbox, test, INODES)
        assert [check.held for check in verdict.checks] == [True, True]
        pipes.append(set(ast.literal_eval(str(verdict.error).removeprefix("ValueError: "))))
    assert not pipes[0] & pipes[1]
    null = Path(os.devnull).stat()
    assert (null.st_dev, null.st_ino) not in pipes[0]


def test_program_cannot_change_the_assert_counts(sandbox: Sandbox) -> None:
    test = "import random\ndef check(candidate):\n    for _ in range(random.randint(3, 3)):\n"
    test += "        assert candidate(1) == 2\n    x = candidate(2)\n    assert x == 3\n"
    for program, held in ((RIGHT, 4), ("def f(n): return 2", 3), ("def f(n): 1 / 0", 0)):
        tests = run(sandbox, test, program).tests
        assert tests.passed == held
        assert tests.total in (4, 5)
