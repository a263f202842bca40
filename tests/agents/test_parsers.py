"""From responses to parsed answers."""

import textwrap
from pathlib import Path

import pytest

from collab.agents import parser_for
from collab.agents.parsers import parse_python
from collab.errors import RecipeError, UnknownName

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
