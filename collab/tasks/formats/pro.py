"""HumanEval Pro and MBPP Pro (arXiv 2412.21199): a known function, and a new one that calls it."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from collab.agents import parsers
from collab.errors import Unfit
from collab.recipe.task import SourceSpec
from collab.tasks.formats.fields import docstring, field, tree_of
from collab.tasks.formats.mbpp import make_check, mbpp
from collab.tasks.origins import published_rows


def pro(
    row: Mapping[str, Any], shown: int = 1, known: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Convert a published row to one problem, whose `prompt` asks for the new function.

    `helper_name` is the known function's name, and `helper_prompt` asks for it. The new function's
    first asserts are in its prompt, and the others are its hidden test.

    Args:
        shown: number of asserts that the prompt shows.
        known: a source, as `task.source`, of rows of HumanEval or MBPP with the known functions'
            tests. The known function's test becomes the hidden field `helper_test`, which is empty
            if there is none.

    Raises:
        TaskError: a field is missing or does not parse, or `known` cannot be read.
        Unfit: the row has no assert left to hide, or no `def` line.
    """
    imports, helper, helper_text = _parse_problem(field(row, str, "raw_problem"), "raw_problem")
    _, function, text = _parse_problem(field(row, str, "new_problem"), "new_problem")
    setup, asserts = _split_asserts(field(row, str, "test_code"))
    if len(asserts) <= shown:
        raise Unfit(f"its prompt would show all of its asserts ({len(asserts)})")
    name, helper_name = _function_name(function), _function_name(helper)
    text = "\n\n".join([text, *asserts[:shown]])
    made = {
        "task_id": f"Pro/{row.get('id')}",
        "prompt": _prompt(imports, function, text),
        "entry_point": name,
        "helper_name": helper_name,
        "helper_prompt": _prompt(imports, helper, helper_text),
        "test": make_check(setup, asserts[shown:]),
        "canonical_solution": "\n\n".join(
            [imports, _full_solution(row, "raw", helper), _full_solution(row, "new", function)]
        ).strip(),
    }
    tests = _known_tests(json.dumps(known, sort_keys=True)) if known else {}
    return {**made, "helper_test": tests.get(helper_name, "")}


def _parse_problem(problem: str, name: str) -> tuple[str, str, str]:
    """Return the code above a function, its `def` line, and its docstring or comments."""
    lines = problem.replace("\r\n", "\n").strip().split("\n")
    starts = [i for i, line in enumerate(lines) if line.startswith("def ")]
    if not starts:
        raise Unfit(f"its '{name}' has no line that begins with 'def '")
    above = lines[: starts[-1]]
    comments = [line.lstrip("# ") for line in above if line.startswith("#")]
    code = "\n".join(line for line in above if not line.startswith("#")).strip()
    return code, lines[starts[-1]].rstrip(), parsers.docstring(problem) or "\n".join(comments)


def _function_name(function: str) -> str:
    return function.removeprefix("def ").partition("(")[0].strip()


def _prompt(imports: str, function: str, text: str) -> str:
    return f"{imports}\n\n\n{function}\n{docstring(text)}".lstrip("\n")


def _full_solution(row: Mapping[str, Any], which: str, function: str) -> str:
    return f"{function}\n{field(row, str, f'{which}_solution')}".rstrip()


def _split_asserts(test_code: str) -> tuple[str, list[str]]:
    """Split a test into its code without asserts, and the asserts."""
    body = tree_of(test_code.strip(), "the field 'test_code'").body
    asserts = [ast.unparse(node) for node in body if isinstance(node, ast.Assert)]
    return "\n".join(
        ast.unparse(node) for node in body if not isinstance(node, ast.Assert)
    ), asserts


@lru_cache(maxsize=4)
def _known_tests(source: str) -> dict[str, str]:
    """Return the tests of a source's problems, by function. `source` is its JSON."""
    rows = published_rows(SourceSpec.model_validate_json(source))
    humanevals = (mbpp(row.fields) for row in rows)
    return {row["entry_point"]: row["test"] for row in humanevals}
