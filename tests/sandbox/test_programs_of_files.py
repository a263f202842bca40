"""Programs of several files run in the jail like others, from memory."""

import asyncio
import re
from textwrap import dedent

import pytest
from support.shares import one_in

from collab.sandbox import Sandbox, Treatment, Trial, Verdict

HELPER = "# file: shapes/area.py\ndef area(a):\n    return a * a\n"
MAIN = "# file: main.py\nfrom shapes.area import area\n\ndef f(a):\n    return area(a) + 1\n"
TEST = "def check(candidate):\n    assert candidate(3) == 10\n    assert candidate(4) == 17\n"


def verdict_of(sandbox: Sandbox, program: str, treatment: Treatment | None = None) -> Verdict:
    trial = Trial(program=program, entry_point="f", test=TEST, treatment=treatment)
    return asyncio.run(sandbox.check(trial))


@pytest.mark.parametrize(
    "program",
    [
        HELPER + MAIN,
        MAIN + HELPER,
        HELPER + MAIN.replace("main.py", "solution.py"),
        "# file: shapes/__init__.py\nfrom .area import area\n"
        + HELPER
        + MAIN.replace("shapes.area", "shapes"),
        HELPER
        + MAIN.replace(
            "from shapes.area import area", "import shapes.area\narea = shapes.area.area"
        ),
        "# file: f.py\ndef f(a):\n    return a * a + 1\n",
        "# file: __main__.py\ndef f(a):\n    return a * a + 1\n",
        *(
            HELPER.replace("shapes/area", name)
            + MAIN.replace("shapes.area", name.replace("/", "."))
            for name in ("jail", "jail/files", "jail/area", "collab", "program")
        ),
    ],
)
def test_files_import_each_other(sandbox: Sandbox, program: str) -> None:
    verdict = verdict_of(sandbox, program)
    assert verdict.passed, verdict.error


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (HELPER + HELPER + MAIN, "'shapes/area.py' occurs twice"),
        ("# file: ../a.py\n" + MAIN, "not a file name"),
        ("# file: os.py\n" + MAIN, "standard module"),
        (HELPER + "x = (\n" + MAIN, r"\(shapes/area.py, line 3"),
        (HELPER + MAIN + "1 / 0\n", r"ZeroDivisionError: division by zero \(main.py, line 5\)"),
        (MAIN, "No module named 'shapes'"),
        ("# file: a.py\nimport main\n" + MAIN.replace("shapes.area", "a"), "circular|import"),
    ],
)
def test_invalid_file_program_is_an_ordinary_failure(
    sandbox: Sandbox, program: str, message: str
) -> None:
    verdict = verdict_of(sandbox, program)
    assert (verdict.passed, verdict.tests.passed) == (False, 0)
    assert re.search(message, verdict.error or ""), verdict.error
    assert verdict_of(sandbox, HELPER + MAIN).passed


@pytest.mark.parametrize("head", ["", "# file: main.py\n"])
@pytest.mark.parametrize(
    ("line", "message"),
    [("import json; json.loads('{')", "JSONDecodeError"), ("x = 'LONE'", "UnicodeEncodeError")],
)
def test_load_error_names_no_path(sandbox: Sandbox, head: str, line: str, message: str) -> None:
    program = f"{head}{line}\n".replace("LONE", "\ud800")
    error = verdict_of(sandbox, program).error or ""
    assert message in error
    assert "/" not in error, error


def test_helper_in_a_separate_file_can_be_replaced(sandbox: Sandbox) -> None:
    program = HELPER + MAIN
    control = Treatment(function="area", values="true", lines=(1, 3))
    assert verdict_of(sandbox, program, control).passed
    without = Treatment(function="area", values="none", lines=(1, 3))
    assert verdict_of(sandbox, program, without).tests.passed == 0
    elsewhere = verdict_of(
        sandbox, program, Treatment(function="area", values="none", lines=(4, 8))
    )
    assert "no function `area`" in (elsewhere.error or "")


PEEKS = """\
# file: main.py
import sys
from shapes.area import area

held = [each for finder in sys.meta_path for each in vars(finder).values()]
kinds = {type(value).__name__ for each in held if isinstance(each, dict) for value in each.values()}


def f(a):
    return area(a) + 1 if "code" not in kinds else 0
"""


REPLACES_EXEC = """\
# file: main.py
import builtins
held, real = [], builtins.exec
builtins.exec = lambda code, names: (held.append(code), real(code, names))
from shapes.area import area


def f(a):
    return area(a) + 1 if not held else 0
"""


@pytest.mark.parametrize("main", [PEEKS, REPLACES_EXEC])
def test_program_finds_no_code_of_its_files(sandbox: Sandbox, main: str) -> None:
    """The code of a treated helper holds the treatment."""
    treatment = Treatment(function="area", values="true", lines=(1, 3))
    assert verdict_of(sandbox, HELPER + main, treatment).passed


CHEATS = {
    "reads a test": "open('/proc/self/mem').read()",
    "imports the test": "import test\n",
    "writes a file": "open('area.py', 'w').write('x')",
    "looks for the runner": "import collab.sandbox.jail.test_runner",
    "exits": "raise SystemExit(0)",
    "exits hard": "import os\nos._exit(0)",
    "forks": "import os\nos.fork()",
    "shadows builtins": "# file: builtins.py\nx = 1",
    "a module that equals all": "class A:\n    __eq__ = lambda s, o: True\nf = lambda a: A()",
    "an int that equals all": "class A(int):\n    __eq__ = lambda s, o: True\nf = lambda a: A(1)",
    "closes the pipes": "import os\nos.closerange(3, 20)\n\n\ndef f(a):\n    return a * a + 1",
    "speaks out of turn": "import os\nos.write(4, b'x' * 100)\n\n\ndef f(a):\n    return 0",
    "finder of its own": "import sys\nsys.meta_path.clear()\nimport nothing",
    "replaces the module": "import sys\nsys.modules['main'] = None\n\n\ndef f(a):\n    return None",
    "no function": "x = 1",
    "not callable": "f = 10",
    "loops": "while True: pass",
    "recursion in imports": "import sys\nsys.setrecursionlimit(10**9)\ng = lambda: g()\ng()",
    "subprocess": "import subprocess\nsubprocess.run(['ls'])",
    "socket": "import socket\nsocket.socket()",
}


@pytest.mark.parametrize("cheat", one_in(5, CHEATS.values()))
def test_cheats_in_a_file_earn_nothing(sandbox: Sandbox, cheat: str) -> None:
    verdict = verdict_of(sandbox, f"{HELPER}# file: main.py\n{dedent(cheat)}\n")
    assert (verdict.passed, verdict.tests.passed) == (False, 0), verdict


COUNTED = "# file: seen.py\nruns = []\n"
READS = "# file: main.py\nimport seen\nseen.runs.append(input())\nprint(*seen.runs)\n"


@pytest.mark.parametrize(
    "program",
    [
        "# file: solution.py\nprint(input())\n",
        COUNTED + READS,
        READS + COUNTED,
        "# file: seen.py\nprint(input())\n# file: main.py\nimport seen\n",
    ],
)
def test_stdin_program_may_have_several_files(sandbox: Sandbox, program: str) -> None:
    test = (
        "def check(candidate):\n    assert candidate('3') == '3\\n'\n"
        "    assert candidate('4') == '4\\n'\n"
    )
    verdict = asyncio.run(sandbox.check(Trial(program=program, entry_point="__main__", test=test)))
    assert verdict.passed, verdict
