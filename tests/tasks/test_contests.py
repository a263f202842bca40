"""Contest rows in the published formats, and cheats against them."""

import asyncio
import base64
import json
import pickle
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.scoring import joined_score
from support.shares import one_in

from collab.errors import TaskError
from collab.recipe import load_recipe, load_task
from collab.recipe.sandbox import SandboxSpec
from collab.records import Score
from collab.rewards import Scorer
from collab.sandbox import Sandbox, Trial, Verdict
from collab.tasks import open_suite
from collab.tasks.formats import contests
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
MAIN = """\
def solve(text: str) -> str:
    found = []
    for line in text.splitlines():
        found.append(str(aux(line)))
    return "\\n".join(found)
"""
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
PRINTED = {
    "question_id": "x2",
    "question_content": SUMS["question"],
    "public_test_cases": '[{"input": "1 2\\n3 4", "output": "3\\n7", "testtype": "stdin"}]',
    "private_test_cases": '[{"input": "5 6", "output": "11", "testtype": "stdin"}]',
}
RIGHT = "import sys\nfor line in sys.stdin:\n    print(sum(map(int, line.split())))"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    sandbox = Sandbox(SandboxSpec(seconds=3, workers=1))
    yield sandbox
    sandbox.close()


def verdict_of(sandbox: Sandbox, row: dict[str, str], program: str) -> Verdict:
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
        "for line in open(0).read().splitlines():\n    print(sum(map(int, line.split())))",
        "import os\nlines = os.read(0, 1 << 20).decode().splitlines()\n"
        "os.write(1, '\\n'.join(str(sum(map(int, l.split()))) for l in lines).encode())",
        "import sys, threading\nthreading.stack_size(1 << 27)\nsys.setrecursionlimit(10**6)\n"
        "def main():\n    for l in sys.stdin: print(sum(map(int, l.split())))\n"
        "threading.Thread(target=main).start()",
        "import atexit, io, os, sys\nsys.stdout = io.StringIO()\n"
        "atexit.register(lambda out: os.write(1, out.getvalue().encode()), sys.stdout)\n" + RIGHT,
        "out = open(1, 'w', closefd=False)\ndef say(x): out.write(f'{x}\\n')\n"
        + RIGHT.replace("print", "say"),
        RIGHT + "\nexit()\nprint('never')",
        "import os\nkept = os.dup(0), os.dup(1)\n" + RIGHT,
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "@dataclass\nclass Pair:\n    one: int\n" + RIGHT,
    ],
)  # fmt: skip
def test_programs_reading_stdin_and_printing_pass(sandbox: Sandbox, program: str) -> None:
    verdict = verdict_of(sandbox, apps(SUMS), program)
    assert (verdict.passed, verdict.tests.total) == (True, 2), verdict.error


def test_methods_of_a_solution_class_are_tested(sandbox: Sandbox) -> None:
    add = "class Solution:\n    def add(self, a, b):\n        return a + b"
    assert verdict_of(sandbox, apps(METHOD), add).passed
    shift = "class Solution:\n    def shift(self, xs, n):\n        return [x + n for x in xs]"
    row = livecodebench(SHIFT)
    assert verdict_of(sandbox, row, shift).tests.total == 2
    assert verdict_of(sandbox, row, shift).passed
    assert not verdict_of(sandbox, row, shift.replace("+", "-")).passed
    assert not verdict_of(sandbox, row, "Solution = 1").passed


def test_returned_list_may_be_published_as_it_is(sandbox: Sandbox) -> None:
    cases = {"fn_name": "twice", "inputs": [[[1, 2]], [[]]], "outputs": [[2, 4], []]}
    row = apps({**METHOD, "input_output": json.dumps(cases), "starter_code": "def twice(xs):\n"})
    twice = "def twice(xs):\n    return [2 * x for x in xs]"
    assert verdict_of(sandbox, row, twice).passed
    assert not verdict_of(sandbox, row, twice.replace("2", "3")).passed


def test_large_input_may_be_read_or_ignored(sandbox: Sandbox) -> None:
    cases = {"inputs": ["1 2\n" * 30_000], "outputs": ["3\n" * 30_000]}
    row = apps({**SUMS, "input_output": json.dumps(cases)})
    assert verdict_of(sandbox, row, RIGHT).passed
    verdict = verdict_of(sandbox, row, "print(input())")
    assert (verdict.tests.passed, verdict.error) == (0, None)


def test_late_output_does_not_reach_the_next_run(sandbox: Sandbox) -> None:
    program = "import sys, threading, time\nout = sys.stdout\n"
    program += "threading.Thread(target=lambda: (time.sleep(0.05), out.write('3\\n7\\n11')),"
    verdict = verdict_of(sandbox, apps(SUMS), program + " daemon=True).start()")
    assert verdict.tests.passed == 0


def test_method_may_be_written_as_a_function(sandbox: Sandbox) -> None:
    bare = {**METHOD, "starter_code": "def add(a, b):\n"}
    assert apps(bare)["entry_point"] == "add"
    assert verdict_of(sandbox, apps(bare), "def add(a, b):\n    return a + b").passed
    assert verdict_of(sandbox, apps(METHOD), "def add(a, b):\n    return a + b").passed


def packed(data: bytes) -> dict[str, str]:
    return {**SHIFT, "private_test_cases": base64.b64encode(zlib.compress(data)).decode()}


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_packed_cases_are_read_as_published(protocol: int) -> None:
    row = packed(pickle.dumps(json.dumps(CASES), protocol))
    assert livecodebench(row) == livecodebench(packed(json.dumps(CASES).encode()))
    plain = {**SHIFT, "private_test_cases": json.dumps(CASES)}
    assert livecodebench(row) == livecodebench(plain)


class Hostile:
    def __reduce__(self) -> tuple[object, ...]:
        return pytest.fail, ("a pickle was run",)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (packed(pickle.dumps(print)), "pickle of more than a string"),
        (packed(pickle.dumps(Hostile())), "pickle of more than a string"),
        (packed(pickle.dumps(CASES)), "pickle of more than a string"),
        (packed(pickle.dumps("[]")[:-1]), "cannot be unpacked"),
        (packed(b"\x80\x04."), "pickle of 0 strings"),
        (packed(b"\x80\x02r\xff\xff\xff\x7f."), "pickle of more than a string"),
        (packed(b"{}"), "holds a dict, no list"),
        ({**SHIFT, "private_test_cases": "nonsense"}, "cannot be unpacked"),
        ({**SHIFT, "private_test_cases": "eJwDAAAA"}, "private_test_cases.*are truncated"),
        ({**SHIFT, "public_test_cases": "[{}]"}, "'input' is missing"),
        ({**SHIFT, "public_test_cases": "[" * 100_000}, "is not JSON"),
    ],
)
def test_other_packed_cases_are_refused_and_never_run(row: dict[str, str], message: str) -> None:
    with pytest.raises(TaskError, match=message):
        livecodebench(row)


def test_cases_beyond_the_decompressed_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contests, "MAX_CASES_BYTES", 1000)
    with pytest.raises(TaskError, match="decompress to more than 1,000"):
        livecodebench(packed(b" " * 1001))


def test_incomplete_cases_are_refused() -> None:
    with pytest.raises(TaskError, match="no test cases"):
        apps({**SUMS, "input_output": "{}"})
    with pytest.raises(TaskError, match="1 inputs and 0 outputs"):
        apps({**SUMS, "input_output": '{"inputs": ["1"]}'})


def test_signature_includes_the_typing_imports_it_needs() -> None:
    starter = (
        "class Solution:\n    def shift(self, xs: List[int], n: int) -> Optional[int]:\n        "
    )
    row = {**SHIFT, "starter_code": starter}
    imports = "from typing import List, Optional\n\n\n"
    assert f"{imports}class Solution" in livecodebench(row)["prompt"]
    row_of_function = livecodebench(row, form="function")
    assert row_of_function["prompt"].startswith(
        f"{imports}def shift(xs: List[int], n: int) -> Optional[int]:"
    )
    assert row_of_function["entry_point"] == "shift"


@pytest.mark.parametrize("name", ["apps-functions", "livecodebench-functions"])
def test_stdin_problem_is_solved_as_two_parts(tmp_path: Path, sandbox: Sandbox, name: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(SUMS if name.startswith("apps") else PRINTED))
    spec = load_task(name, settings=[f"task.source.path={path}"])
    assert spec.reward
    (problem,) = open_suite(spec).select("")
    scorer = Scorer(spec.reward, sandbox, load_recipe("coding").team.roles)

    def scored(aux: str) -> Score:
        wrote = {"aux": f"def aux(line):\n    return {aux}", "main": MAIN}
        return asyncio.run(joined_score(scorer, problem, wrote, ["aux", "main"]))

    assert "Print the sum" in str(problem.public["prompt"])
    assert not {"test", "input_output", "private_test_cases"} & {*problem.public}
    right = scored("sum(map(int, line.split()))")
    assert (right.solved, right.tests and right.tests.total) == (True, 2), right
    assert {part.name: part.value for part in right.parts}["calls"] == 1
    assert not scored("0").solved


CHEATS = (
    "", "print(3)", "print('3\\n7\\n11')", "print('3 7 11')", "print('nan')", "print('*')",
    "raise SystemExit(0)", "import os\nos._exit(0)", "while True: pass",
    "while True: print('3')", "print('3\\n' * 10**7)", "import sys\nsys.stdout = None",
    "import sys\nclass S(str):\n    __eq__ = lambda s, o: True\nsys.stdout.write(S('x'))",
    "import os\nos.write(2, b'3\\n7\\n')", "import os\nos.write(4, b'{\"value\": 1}')",
    "open('/proc/self/environ').read()", "import gc\nprint(gc.get_objects())",
    "import __main__\nprint(vars(__main__))", "import builtins\nbuiltins.all = lambda *a: True",
    "import decimal\ndecimal.Decimal.__eq__ = lambda *a: True\nprint(1)",
    "import sys\nprint(sys._getframe(1).f_locals)", "import io\nio.BytesIO = None\n1 / 0",
    "import os\nos.fork()", "same_output = lambda *a: True", "print(input())",
    "import os\nos.write(1, b'3\\n7\\n11\\n')", "import os\nos.close(1)", "print('3\\r7\\r11')",
    "import atexit\natexit.register(print, '3 7 11')", "for n in range(50): print(n)",
    "import os, select\nfor n in range(3, 64):\n    try:\n"
    "        if select.select([n], [], [], 0)[0]: print(os.read(n, 10**6))\n"
    "    except OSError:\n        pass",
    "import os\nfor n in range(2, 64):\n    try:\n        os.write(n, b'3\\n7\\n')\n"
    "    except OSError:\n        pass",
)  # fmt: skip


@pytest.mark.parametrize("cheat", one_in(4, CHEATS))
def test_cheats_earn_nothing(sandbox: Sandbox, cheat: str) -> None:
    verdict = verdict_of(sandbox, apps(SUMS), cheat)
    assert (verdict.passed, verdict.tests.passed) == (False, 0), verdict
