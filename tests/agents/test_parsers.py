"""From responses to parsed answers and named files, and to the program of all files."""

import json
import textwrap
import time
from pathlib import Path

import pytest

from collab.agents import join_for, parser_for
from collab.agents.parsers import parse_python
from collab.errors import RecipeError, UnknownName
from collab.records import Problem
from collab.sandbox.jail.files import BadFiles, is_files, split_files
from collab.sandbox.programs import parse_program

FUNCTION = "def f(x):\n    return x"


@pytest.mark.parametrize(
    "response",
    [
        FUNCTION,
        f"```python\n{FUNCTION}\n```",
        f"```\n{FUNCTION}\n```",
        f"```py\n{FUNCTION}",
        f"~~~python\n{FUNCTION}\n~~~",
        f"Sure, here it is:\n\n```python\n{FUNCTION}\n```\nIt returns x.",
        f"Here it is:\n{FUNCTION}\nIt returns x.",
        f"Here it is:\n\n{FUNCTION}\n\nThis works for any x.",
        f"1. The code:\n\n   ```python\n{textwrap.indent(FUNCTION, '   ')}\n   ```\n",
        f"```python\n{FUNCTION}\n\nprint(f(1))\nassert f(1) == 1\n```",
        f"{FUNCTION}\n\nif __name__ == '__main__':\n    f(1)",
        f"```python\n{FUNCTION}\n```\nThen call it:\n```python\nf(2)\n```",
        f"Here it is:\n\n{FUNCTION}\n\n" + "It is a fine function.\n" * 40,
        f"{FUNCTION}\r\n\r\nThis works.",
        f"```text\nnot code\n```\n```python\n{FUNCTION}\n```",
        f"```python\n{FUNCTION}\n\ndef g(x):\n    return (x +",
        f"```python\nthis is broken (\n```\nCorrected:\n```python\n{FUNCTION}\n```",
    ],
)
def test_one_function_is_found(response: str) -> None:
    assert parse_python(response.replace("\n", "\r\n")) == FUNCTION
    assert parse_python(response) == FUNCTION


def test_only_a_mark_of_the_same_kind_ends_a_block() -> None:
    code = 'def f(x):\n    """Title\n    ~~~~~\n    """\n    return x'
    assert parse_python(f"```python\n{code}\n```") == code


def test_definitions_are_kept_verbatim() -> None:
    code = textwrap.dedent(
        """\
        from math import sqrt

        LIMIT = 3  # why three

        @staticmethod
        def g(x):
            def inner(y):
                # a comment
                return y
            return inner(x)

        class A:
            pass

        async def h(): ..."""
    )
    assert parse_python(f"```python\n{code}\n```").split() == code.split()


def test_statements_on_one_line_are_kept_once() -> None:
    assert parse_python("import os; x = 1\ndef f(): return x") == (
        "import os; x = 1\n\ndef f(): return x"
    )


def test_several_blocks_are_put_together() -> None:
    response = "```python\nimport math\n```\nand\n```python\ndef f():\n    return math.pi\n```"
    assert parse_python(response) == "import math\n\ndef f():\n    return math.pi"


@pytest.mark.parametrize("response", ["", "   \n", "I cannot help with that.", "```python\n```"])
def test_response_without_code_gives_an_empty_artifact(response: str) -> None:
    assert parse_python(response) == ""


@pytest.mark.parametrize(
    ("response", "artifact"),
    [
        ("```python\ndef f(x):\n    return (x", "def f(x):\n    return (x"),
        ("def f(:\n    pass", "def f(:\n    pass"),
        ("Sure:\ndef f(:\n    pass", "def f(:\n    pass"),
    ],
)
def test_unparsable_code_is_returned_unchanged(response: str, artifact: str) -> None:
    assert parse_python(response) == artifact


@pytest.mark.parametrize(
    "bomb",
    ["-" * 90_000 + "1", "(" * 90_000, "a" + ".a" * 50_000, "\0", "x = '\ud800'", "def " * 9_000],
)
def test_parser_bombs_do_not_raise(bomb: str) -> None:
    assert isinstance(parse_python(bomb), str)
    assert isinstance(parse_python(f"```python\n{bomb}\n```"), str)


def test_custom_parser_comes_from_a_file(here: Path) -> None:
    (here / "mine.py").write_text("def shout(response):\n    return response.upper()\n")
    assert parser_for("mine.py:shout")("a") == "A"
    with pytest.raises(UnknownName, match="did you mean 'shout'"):
        parser_for("mine.py:shuot")
    with pytest.raises(RecipeError, match="does not exist"):
        parser_for("nothere.py:shout")
    with pytest.raises(UnknownName, match="did you mean 'python'"):
        parser_for("pyhton")


PROBLEM = Problem(address="t/0", public={"prompt": "", "entry_point": "f"})
parse, join = parser_for("files"), join_for("files")
AREA = "# file: area.py\ndef area(a):\n    return a * a\n"


@pytest.mark.parametrize(
    "response",
    [
        "```python\n# file: area.py\ndef area(a):\n    return a * a\n```",
        "Here:\n```py\n# area.py\ndef area(a):\n    return a * a\n```\nDone.",
        "### area.py\n\n```python\ndef area(a):\n    return a * a\n```",
        "**`area.py`**:\n```\ndef area(a):\n    return a * a\n```",
        "File: area.py\n```\ndef area(a):\n    return a * a\n```",
        '```python title="area.py"\ndef area(a):\n    return a * a\n```',
        "```python area.py\ndef area(a):\n    return a * a",
        "# file: area.py\ndef area(a):\n    return a * a",
        "```text\nhow to\n```\n```python\n# FILE: area.py\ndef area(a):\n    return a * a\n```",
    ],
)
def test_file_is_parsed_in_every_common_response_format(response: str) -> None:
    assert parse(response) == AREA
    assert parse(parse(response)) == AREA


def test_code_without_a_file_name_gives_no_file() -> None:
    assert parse("```python\ndef area(a):\n    return a\n```") == ""
    assert parse("No code.") == ""


def test_last_of_two_files_with_the_same_name_is_kept() -> None:
    assert parse("```\n# file: area.py\nx = 1\n```\n```\n# file: area.py\nx = 2\n```").endswith(
        "2\n"
    )


def test_joint_program_maps_lines_to_files_and_agents() -> None:
    joint = join({"a": AREA, "b": "# file: main.py\nfrom area import area\n"}, PROBLEM)
    assert [(f.name, f.module) for f in split_files(joint.text)] == [
        ("area.py", "area"),
        ("main.py", "main"),
    ]
    assert joint.locate(2) == ("a", 2)
    assert joint.locate(split_files(joint.text)[1].line) == ("b", 2)
    assert split_files(json.loads(json.dumps(joint.text))) == split_files(joint.text)


def test_file_written_by_two_agents_is_refused() -> None:
    joint = join({"a": AREA, "b": AREA}, PROBLEM)
    with pytest.raises(BadFiles, match=r"'area\.py' occurs twice, first in line 1") as error:
        split_files(joint.text)
    assert joint.locate(error.value.lineno or 0) == ("b", 1)


@pytest.mark.parametrize(
    "name",
    [
        "/etc/passwd", "/a.py", "../a.py", "a/../b.py", "./a.py", "a.txt", "a.pyc", ".py", "a b.py",
        "a\\b.py", "C:a.py", "a//b.py", "~/a.py", "é.py", "a.b.py", "-a.py", "a\x00.py", "a" * 200
        + ".py", "os.py", "random/x.py", "sys.py", "1a.py",
    ],
)  # fmt: skip
def test_hostile_file_names_are_refused(name: str) -> None:
    with pytest.raises(BadFiles):
        split_files(f"# file: {name}\nx = 1\n")


def test_number_and_size_of_files_are_limited() -> None:
    with pytest.raises(BadFiles, match="33 files; the limit is 32"):
        split_files("".join(f"# file: f{n}.py\n" for n in range(33)))
    with pytest.raises(BadFiles, match="bytes together; the limit is 200000"):
        split_files("# file: f.py\n" + "#" * 200_001)
    assert not is_files("x = 1\n# file: f.py\n")


def test_syntax_error_names_the_file_and_both_line_numbers() -> None:
    parse_program(AREA + "# file: main.py\nfrom area import area\n")
    with pytest.raises(SyntaxError, match=r"\(main\.py, line 2\)") as error:
        parse_program(AREA + "# file: main.py\nx = 1\ny = (\n")
    assert error.value.lineno == 6
    with pytest.raises(SyntaxError):  # files are parsed separately
        parse_program('# file: a.py\nx = """\n# file: b.py\n"""\n')


@pytest.mark.parametrize(
    "response",
    [
        f'```python title="{"a" * 300_000}\nx = 1\n```',
        f"{'_' * 3_000}!\n```python\nx = 1\n```",
        f"# file: x{' ' * 300_000}y",
        f"{'-' * 190}!\n```python\nx = 1\n```\n" * 1_000,
    ],
)
def test_file_names_are_found_in_linear_time(response: str) -> None:
    started = time.process_time()
    assert parse(response) == ""
    assert time.process_time() - started < 2
