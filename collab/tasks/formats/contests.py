"""Problems of contests: programs that read and print, or methods of a class `Solution`.

APPS (Hendrycks et al. 2021, arXiv 2105.09938) and LiveCodeBench (Jain et al. 2024, arXiv
2403.07974). Both become a hidden test of one assert for each published case.
"""

from __future__ import annotations

import base64
import io
import json
import pickle
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from collab.errors import TaskError
from collab.tasks.formats.fields import field

MOST_UNPACKED = 1 << 27
"""Bytes that the packed cases of one problem may hold."""
MAIN = "__main__"

_SAME_TEXT = """\
from decimal import Decimal, InvalidOperation


def same_output(printed, expected):
    lines = [[line.strip() for line in text.strip().split("\\n")] for text in (printed, expected)]
    if len(lines[0]) != len(lines[1]):
        return False
    return all(map(same_line, *lines))


def same_line(one, other):
    if one == other:
        return True
    try:
        numbers = [[Decimal(word) for word in line.split()] for line in (one, other)]
    except InvalidOperation:
        return False
    return numbers[0] == numbers[1]
"""
_SAME_VALUE = """\
def same_value(value, expected):
    return (list(value) if type(value) is tuple else value) == expected
"""


def apps(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of APPS: `question`, `input_output` as JSON, and `starter_code`.

    Raises:
        TaskError: a field is missing, or there are no cases.
    """
    told = field(row, str, "input_output")
    cases = _json(told, "input_output") if told.strip() else {}
    inputs, outputs = cases.get("inputs") or [], cases.get("outputs") or []
    function = cases.get("fn_name")
    if function:
        outputs = [out[0] if isinstance(out, list) and out else out for out in outputs]
    return {
        "task_id": f"APPS/{row.get('problem_id', row.get('id', ''))}",
        "prompt": _prompt(field(row, str, "question"), str(row.get("starter_code") or "")),
        "difficulty": str(row.get("difficulty") or ""),
        **_tested(str(function or ""), list(zip(inputs, outputs, strict=False))),
    }


def livecodebench(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of LiveCodeBench: `question_content`, `public_test_cases`, `private_test_cases`.

    Private cases may be packed as they are published: base64 of zlib of a pickled text.

    Raises:
        TaskError: a field is missing, or the cases cannot be read.
    """
    public = _json(field(row, str, "public_test_cases"), "public_test_cases")
    cases = [*public, *_private(str(row.get("private_test_cases") or "[]"))]
    metadata = _json(str(row.get("metadata") or "{}"), "metadata")
    function = str(metadata.get("func_name") or "")
    pairs = [(case["input"], case["output"]) for case in cases]
    if function:
        pairs = [([json.loads(x) for x in i.split("\n")], json.loads(o)) for i, o in pairs]
    return {
        "task_id": f"LiveCodeBench/{field(row, str, 'question_id')}",
        "prompt": _prompt(field(row, str, "question_content"), str(row.get("starter_code") or "")),
        "difficulty": str(row.get("difficulty") or ""),
        **_tested(function, pairs),
    }


def _tested(function: str, cases: Iterable[tuple[Any, Any]]) -> dict[str, str]:
    """The entry point, and the test with one assert for each case."""
    if function:
        lines = [f"assert same_value(candidate(*{i!r}), {o!r})" for i, o in cases]
    else:
        texts = [(_text(i), _text(o)) for i, o in cases]
        lines = [f"assert same_output(candidate({i!r}), {o!r})" for i, o in texts]
    if not lines:
        raise TaskError("the problem has no test cases")
    given = _SAME_VALUE if function else _SAME_TEXT
    check = "\n    ".join(["def check(candidate):", *lines])
    return {
        "entry_point": f"Solution.{function}" if function else MAIN,
        "test": f"{given}\n\n{check}\n",
    }


def _text(told: Any) -> str:
    """A case's input or output, which some rows give as a list of lines."""
    return "\n".join(map(str, told)) if isinstance(told, list) else str(told)


def _prompt(question: str, starter: str) -> str:
    given = f"\n\nBegin with this code:\n\n{starter.rstrip()}" if starter.strip() else ""
    return f"{question.strip()}{given}"


def _json(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise TaskError(f"the field '{name}' is not JSON: {error}") from error


class _TextAlone(pickle.Unpickler):
    """Reads pickled plain values; a class or a function is refused."""

    def find_class(self, module: str, name: str) -> Any:
        raise TaskError(f"the private test cases hold an object, {module}.{name}, and no text")


def _private(told: str) -> Any:
    if told.lstrip().startswith("["):
        return _json(told, "private_test_cases")
    unpacking = zlib.decompressobj()
    try:
        data = unpacking.decompress(base64.b64decode(told), MOST_UNPACKED)
        if unpacking.unconsumed_tail:
            raise TaskError(f"the private test cases unpack to more than {MOST_UNPACKED:,} bytes")
        text = _TextAlone(io.BytesIO(data)).load()
    except (ValueError, zlib.error, pickle.UnpicklingError, EOFError) as error:
        raise TaskError(f"the private test cases cannot be unpacked: {error}") from error
    return _json(str(text), "private_test_cases")
