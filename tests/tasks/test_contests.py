"""Rows of contests, made by hand in the published forms, and cheats against them."""

from __future__ import annotations

import asyncio
import base64
import json
import pickle
import zlib
from collections.abc import Iterator

import pytest

from collab.agents import parser_for
from collab.errors import TaskError
from collab.recipe.sandbox import SandboxSpec
from collab.sandbox import Sandbox, Trial, Verdict
from collab.tasks.formats.contests import apps, livecodebench

SUMS = {
    "problem_id": 1,
    "question": "Print the sum of each line's numbers.",
    "input_output": json.dumps({"inputs": ["1 2\n3 4\n", "5 6\n"], "outputs": ["3\n7\n", "11\n"]}),
    "starter_code": "",
}
METHOD = {
    "problem_id": 2,
    "question": "Add.",
    "input_output": json.dumps({"fn_name": "add", "inputs": [[1, 2]], "outputs": [[3]]}),
    "starter_code": "class Solution:\n    def add(self, a, b):",
}
CASES = [{"input": "[1, 2]\n3", "output": "[4, 5]", "testtype": "functional"}]
PACKED = base64.b64encode(zlib.compress(pickle.dumps(json.dumps(CASES)))).decode()
SHIFT = {
    "question_id": "x1",
    "question_content": "Shift.",
    "starter_code": "class Solution:\n    def shift(self, xs, n):",
    "public_test_cases": json.dumps(CASES),
    "private_test_cases": PACKED,
    "metadata": json.dumps({"func_name": "shift"}),
}
RIGHT = "import sys\nfor line in sys.stdin:\n    print(sum(map(int, line.split())))"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    sandbox = Sandbox(SandboxSpec(seconds=1, workers=1))
    yield sandbox
    sandbox.close()


def tried(sandbox: Sandbox, row: dict[str, str], program: str) -> Verdict:
    trial = Trial(program=program, entry_point=row["entry_point"], test=row["test"])
    return asyncio.run(sandbox.check(trial))


@pytest.mark.parametrize(
    "program",
    [
        RIGHT,
        RIGHT.replace("print(", "print('', ") + "\nprint()",
        "while True:\n    try:\n        print(float(sum(map(int, input().split()))))\n"
        "    except EOFError:\n        raise SystemExit",
        "import sys\nfor l in sys.stdin.buffer:\n"
        "    sys.stdout.buffer.write(b'%d\\n' % sum(map(int, l.split())))",
        "def main():\n" + "\n".join("    " + line for line in RIGHT.split("\n"))
        + "\n\nif __name__ == '__main__':\n    main()",
    ],
)  # fmt: skip
def test_programs_that_read_and_print(sandbox: Sandbox, program: str) -> None:
    verdict = tried(sandbox, apps(SUMS), program)
    assert (verdict.passed, verdict.tests.total) == (True, 2), verdict.error


def test_methods_of_a_solution(sandbox: Sandbox) -> None:
    add = "class Solution:\n    def add(self, a, b):\n        return a + b"
    assert tried(sandbox, apps(METHOD), add).passed
    shift = "class Solution:\n    def shift(self, xs, n):\n        return [x + n for x in xs]"
    row = livecodebench(SHIFT)
    assert tried(sandbox, row, shift).tests.total == 2
    assert tried(sandbox, row, shift).passed
    assert not tried(sandbox, row, shift.replace("+", "-")).passed
    assert not tried(sandbox, row, "Solution = 1").passed


def test_packed_cases_are_text_alone() -> None:
    packed = base64.b64encode(zlib.compress(pickle.dumps(print))).decode()
    with pytest.raises(TaskError, match=r"hold an object, builtins\.print"):
        livecodebench({**SHIFT, "private_test_cases": packed})
    with pytest.raises(TaskError, match="cannot be unpacked"):
        livecodebench({**SHIFT, "private_test_cases": "nonsense"})
    with pytest.raises(TaskError, match="no test cases"):
        apps({**SUMS, "input_output": "{}"})


def test_a_whole_program_keeps_what_it_runs() -> None:
    assert parser_for("program")(f"Here:\n```python\n{RIGHT}\n```\nDone.") == RIGHT


CHEATS = (
    "", "print(3)", "print('3\\n7\\n11')", "print('3 7 11')", "print('nan')", "print('*')",
    "raise SystemExit(0)", "import os\nos._exit(0)", "while True: pass",
    "while True: print('3')", "print('3\\n' * 10**7)", "import sys\nsys.stdout = None",
    "import sys\nclass S(str):\n    __eq__ = lambda s, o: True\nsys.stdout.write(S('x'))",
    "import os\nos.write(1, b'3\\n7\\n')", "import os\nos.write(4, b'{\"value\": 1}')",
    "open('/proc/self/environ').read()", "import gc\nprint(gc.get_objects())",
    "import __main__\nprint(vars(__main__))", "import builtins\nbuiltins.all = lambda *a: True",
    "import decimal\ndecimal.Decimal.__eq__ = lambda *a: True\nprint(1)",
    "import sys\nprint(sys._getframe(1).f_locals)", "import io\nio.BytesIO = None\n1 / 0",
    "import os\nos.fork()", "same_output = lambda *a: True", "print(input())",
)  # fmt: skip


@pytest.mark.parametrize("cheat", CHEATS)
def test_cheats_earn_nothing(sandbox: Sandbox, cheat: str) -> None:
    verdict = tried(sandbox, apps(SUMS), cheat)
    assert (verdict.passed, verdict.tests.passed) == (False, 0), verdict
