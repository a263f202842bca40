"""MBPP (Austin et al. 2021, arXiv 2108.07732): a sentence, a solution, and asserts.

Its rows have no signature. As in the published experiments with teams, the prompt is the first line
of the solution's function with the sentence as its docstring. So agents know the name that the
tests call.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from collab.errors import TaskError
from collab.syntax import normalize_newlines, parse
from collab.tasks.formats.fields import docstring, field, tree_of


def mbpp(row: Mapping[str, Any], shown: int = 0) -> dict[str, Any]:
    """Convert a row of MBPP, `full` or `sanitized`. A row in HumanEval's form is returned
    unchanged.

    Args:
        shown: number of asserts that the prompt shows below the sentence; published scores show 1.

    Raises:
        TaskError: a field is missing, or the tests call no function of the solution.
    """
    if "entry_point" in row:
        return dict(row)
    solution = normalize_newlines(field(row, str, "code"))
    tests = [normalize_newlines(str(test)).strip() for test in field(row, list, "test_list")]
    function = _tested_function(solution, tests)
    text = normalize_newlines(field(row, str, "text", "prompt")).strip()
    text = "\n\n".join([text, *tests[:shown]])
    return {
        "task_id": f"MBPP/{field(row, int, 'task_id')}",
        "prompt": f"def {function.name}({ast.unparse(function.args)}):\n{docstring(text)}",
        "entry_point": function.name,
        "test": make_check(_setup_code(row), tests),
        "canonical_solution": solution,
    }


def _setup_code(row: Mapping[str, Any]) -> str:
    """Return the code before the tests: `test_setup_code`, or the `test_imports` of `sanitized`."""
    imports = [str(line) for line in row.get("test_imports") or []]
    return normalize_newlines("\n".join([*imports, str(row.get("test_setup_code") or "")])).strip()


def _tested_function(solution: str, tests: Sequence[str]) -> ast.FunctionDef:
    """Return the function of the solution that the tests call, or the last of several."""
    called = {
        node.func.id
        for test in tests
        for node in ast.walk(tree_of(test, "a test"))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    body = tree_of(solution, "the solution").body
    functions = [node for node in body if isinstance(node, ast.FunctionDef)]
    tested = [function for function in functions if function.name in called]
    if not tested:
        defined = ", ".join(function.name for function in functions) or "nothing"
        raise TaskError(f"the tests call no function of the solution, which defines {defined}")
    return tested[-1]


def make_check(setup: str, tests: Sequence[str]) -> str:
    """Return the source of a test function `check` with the asserts, below `setup`."""
    # A test of several lines may contain a multi-line string, which must not be indented.
    lines = [ast.unparse(parse(test)) if "\n" in test else test for test in tests]
    check = "\n    ".join(["def check(candidate):", *"\n".join(lines).split("\n")])
    return f"{setup}\n\n\n{check}\n" if setup else f"{check}\n"
