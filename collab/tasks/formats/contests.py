"""Problems of contests: programs that read and print, or methods of a class `Solution`.

APPS (Hendrycks et al. 2021, arXiv 2105.09938) and LiveCodeBench (Jain et al. 2024, arXiv
2403.07974). Both become a hidden test of one assert for each published case.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from collab.errors import TaskError
from collab.tasks.formats.asked import Form, asked
from collab.tasks.formats.fields import field
from collab.tasks.formats.packed import unpacked


def apps(row: Mapping[str, Any], *, form: Form = "published") -> dict[str, Any]:
    """A row of APPS: `question`, `input_output` as JSON, and `starter_code`.

    Args:
        form: `published` asks for a whole program or a method, `function` for a function.

    Raises:
        TaskError: a field is missing or not of this form, or there are no cases.
    """
    told = field(row, str, "input_output")
    cases = _json(told, "input_output", dict) if told.strip() else {}
    inputs, outputs = cases.get("inputs") or [], cases.get("outputs") or []
    if len(inputs) != len(outputs):
        raise TaskError(f"there are {len(inputs)} inputs and {len(outputs)} outputs")
    function = str(cases.get("fn_name") or "")
    if function:
        outputs = [out[0] if isinstance(out, list) and out else out for out in outputs]
    pairs = list(zip(inputs, outputs, strict=True))
    starter = str(row.get("starter_code") or "")
    return {
        "task_id": f"APPS/{row.get('problem_id', row.get('id', ''))}",
        "difficulty": str(row.get("difficulty") or ""),
        **asked(form, field(row, str, "question"), starter, function, pairs),
    }


def livecodebench(row: Mapping[str, Any], *, form: Form = "published") -> dict[str, Any]:
    """A row of LiveCodeBench: `question_content`, `public_test_cases`, `private_test_cases`.

    Private cases may be packed as they are published. Options as for `apps`.

    Raises:
        TaskError: a field is missing, or the cases cannot be read.
    """
    told = {"public_test_cases": field(row, str, "public_test_cases")}
    name = "private_test_cases"
    try:
        told[name] = unpacked(str(row.get(name) or "[]"))
    except TaskError as error:
        raise TaskError(f"the field '{name}': {error}") from error
    cases = [case for key, text in told.items() for case in _json(text, key, list)]
    metadata = _json(str(row.get("metadata") or "{}"), "metadata", dict)
    function = str(metadata.get("func_name") or "")
    pairs = [(field(case, str, "input"), field(case, str, "output")) for case in cases]
    starter = str(row.get("starter_code") or "")
    return {
        "task_id": f"LiveCodeBench/{field(row, str, 'question_id')}",
        "difficulty": str(row.get("difficulty") or ""),
        **asked(
            form,
            field(row, str, "question_content"),
            starter,
            function,
            [_values(*pair) for pair in pairs] if function else pairs,
        ),
    }


def _values(given: str, value: str) -> tuple[list[Any], Any]:
    """A case of a function: an argument stands in each line, as JSON."""
    lines = given.strip().split("\n") if given.strip() else []
    return [_json(line, "input", object) for line in lines], _json(value, "output", object)


def _json(text: str, name: str, kind: type) -> Any:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TaskError(f"the field '{name}' is not JSON: {error}") from error
    if not isinstance(found, kind):
        raise TaskError(f"the field '{name}' holds a {type(found).__name__}, no {kind.__name__}")
    return found
