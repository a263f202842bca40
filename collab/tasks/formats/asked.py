"""What a problem of a contest asks for: a whole program, a method, or a function."""

from __future__ import annotations

import ast
import re
import typing
from collections.abc import Sequence
from typing import Any, Literal

from collab.errors import TaskError
from collab.syntax import parse
from collab.tasks.formats.cases import check_printed, check_values
from collab.tasks.formats.signatures import docstring

Form = Literal["published", "function"]
MAIN = "__main__"
"""The entry point of a program that reads its standard input and prints."""
SOLVE = "solve"
_SIGNATURE = f"def {SOLVE}(text: str) -> str:"
_READS = "`text` is all that there is to read. Return all that is to be printed, as one text."
_WORD = re.compile(r"\b[A-Z]\w*")


def asked(
    form: Form, question: str, starter: str, function: str, cases: Sequence[tuple[Any, Any]]
) -> dict[str, str]:
    """The `prompt`, `entry_point` and `test` of a problem.

    Args:
        starter: code that the problem gives to begin with; "" for none.
        function: what the problem has called; "" for a program that reads and prints.

    Raises:
        TaskError: there is no case, no such form, or no signature in the code to begin with.
    """
    if form not in typing.get_args(Form):
        raise TaskError(f"there is no form '{form}'; forms: {', '.join(typing.get_args(Form))}")
    test = check_values(cases) if function else check_printed(cases)
    prompt, entry_point = (_function if form == "function" else _published)(
        question.strip(), starter.rstrip(), function
    )
    return {"prompt": prompt, "entry_point": entry_point, "test": test}


def _published(question: str, starter: str, function: str) -> tuple[str, str]:
    given = f"\n\nBegin with this code:\n\n{_imports(starter)}{starter}" if starter else ""
    bare = starter and "class Solution" not in starter
    entry_point = MAIN if not function else function if bare else f"Solution.{function}"
    return f"{question}{given}", entry_point


def _function(question: str, starter: str, function: str) -> tuple[str, str]:
    """The question as the docstring of a function, which a team's agents write together."""
    if not function:
        told = docstring(f"{question}\n\n{_READS}")
        return f"{_SIGNATURE}\n{told}", SOLVE
    signature = _signature(starter, function)
    return f"{_imports(signature)}{signature}\n{docstring(question)}", function


def _signature(starter: str, function: str) -> str:
    """The first line of the function that a starter, whose last body is empty, begins."""
    try:
        nodes = list(ast.walk(parse(f"{starter} pass")))
    except SyntaxError as error:
        raise TaskError(f"the code to begin with does not parse: {error.msg}") from error
    for node in nodes:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            node.args.args = [a for a in node.args.args if a.arg != "self"]
            returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
            return f"def {function}({ast.unparse(node.args)}){returns}:"
    raise TaskError(f"the code to begin with has no function '{function}'")


def _imports(code: str) -> str:
    """What a signature needs of `typing`, which published ones take for granted."""
    names = sorted(set(_WORD.findall(code)) & set(typing.__all__))
    return f"from typing import {', '.join(names)}\n\n\n" if names else ""
