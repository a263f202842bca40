"""Responses with several named files, and the program built from all agents' files."""

import json
import time

import pytest

from collab.agents import join_for, parser_for
from collab.records import Problem
from collab.sandbox.jail.files import BadFiles, is_files, split_files
from collab.sandbox.programs import parse_program

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
