"""Contest problems: programs that read and print, or methods of a class `Solution`.

APPS (Hendrycks et al. 2021, arXiv 2105.09938) and LiveCodeBench (Jain et al. 2024, arXiv
2403.07974). Both become a hidden test with one assert per published case.
"""

from __future__ import annotations

import ast
import base64
import json
import pickletools
import re
import typing
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from collab.errors import TaskError
from collab.tasks.formats.fields import docstring, field, tree_of
from collab.tasks.formats.mbpp import make_check

_SAME_OUTPUT_SOURCE = """\
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
    return numbers[0] == numbers[1]"""
_SAME_VALUE_SOURCE = """\
def same_value(value, *expected):
    value = list(value) if type(value) is tuple else value
    return any(value == one for one in expected)"""


def _make_test(cases: Sequence[tuple[Any, Any]], function: str) -> str:
    """Return the test of a function's values, or of a program's output.

    Each case lists the values that are right. A tuple may be a list. As in LiveCodeBench,
    whitespace around the output and around each line is ignored, and each line must be equal or
    have the same numbers.
    """
    if not cases:
        raise TaskError("the problem has no test cases")
    if function:
        values = [f"assert same_value(candidate(*{i!r}), *{o!r})" for i, o in cases]
        return make_check(_SAME_VALUE_SOURCE, values)
    texts = [(_text(inputs), _text(printed)) for inputs, printed in cases]
    outputs = [f"assert same_output(candidate({i!r}), {o!r})" for i, o in texts]
    return make_check(_SAME_OUTPUT_SOURCE, outputs)


def _text(value: Any) -> str:
    """Return a case's input or output, which some rows give as a list of lines."""
    return "\n".join(map(str, value)) if isinstance(value, list) else str(value)


MAX_CASES_BYTES = 1 << 27
"""Maximum size of a problem's unpacked cases, in bytes."""
PACK_REMEDY = "write the cases as JSON, or as base64 of zlib of JSON"

_PICKLE_PREFIX = b"\x80"
_STRING_OPCODES = frozenset({"SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"})
_FRAMING_OPCODES = frozenset({"PROTO", "FRAME", "MEMOIZE", "BINPUT", "STOP"})


def unpack(text: str) -> str:
    """Return the JSON in a string. It may be plain, or compressed with zlib and encoded in base64,
    pickled or not.

    Raises:
        TaskError: the string contains anything else, or more than MAX_CASES_BYTES bytes.
    """
    if text.lstrip().startswith("["):
        return text
    try:
        data = _decompress(base64.b64decode("".join(text.split()), validate=True))
        texts = [*_pickled_strings(data)] if data.startswith(_PICKLE_PREFIX) else [data.decode()]
    except (ValueError, zlib.error) as error:
        raise TaskError(f"they cannot be unpacked: {error}; {PACK_REMEDY}") from error
    if len(texts) != 1:
        raise TaskError(f"they are a pickle of {len(texts)} strings, expected one; {PACK_REMEDY}")
    return texts[0]


def _decompress(data: bytes) -> bytes:
    unpacking = zlib.decompressobj()
    inflated = unpacking.decompress(data, MAX_CASES_BYTES)
    if unpacking.unconsumed_tail:
        raise TaskError(f"they decompress to more than {MAX_CASES_BYTES:,} bytes; {PACK_REMEDY}")
    if not unpacking.eof:
        raise TaskError(f"they are truncated; {PACK_REMEDY}")
    return inflated


def _pickled_strings(data: bytes) -> Iterator[str]:
    for instruction, argument, _ in pickletools.genops(data):
        if instruction.name in _STRING_OPCODES:
            yield str(argument)
        elif instruction.name not in _FRAMING_OPCODES:
            raise TaskError(
                f"they are a pickle of more than a string ({instruction.name}), which collab never"
                f" loads; {PACK_REMEDY}"
            )


ContestForm = Literal["published", "function"]
MAIN_MODULE = "__main__"
"""The entry point of a program that reads its standard input and prints."""
SOLVE_FUNCTION = "solve"
_SIGNATURE = f"def {SOLVE_FUNCTION}(text: str) -> str:"
_INPUT_NOTE = "`text` is all that there is to read. Return all that is to be printed, as one text."
_CAPITALIZED_WORD = re.compile(r"\b[A-Z]\w*")


def problem_fields(
    row: Mapping[str, Any],
    form: ContestForm,
    question: str,
    function: str,
    cases: Sequence[tuple[Any, Any]],
) -> dict[str, str]:
    """Return the `prompt`, `entry_point`, `test` and `difficulty` of a problem.

    Args:
        row: the published row, from which the difficulty and the starter code come.
        function: the function that the problem calls; "" for a program that reads and prints.

    Raises:
        TaskError: there is no case, or no signature in the starter code.
    """
    test = _make_test(cases, function)
    starter = str(row.get("starter_code") or "").rstrip()
    make_prompt = _function_prompt if form == "function" else _published_prompt
    prompt, entry_point = make_prompt(question.strip(), starter, function)
    difficulty = str(row.get("difficulty") or "")
    return {"difficulty": difficulty, "prompt": prompt, "entry_point": entry_point, "test": test}


def _published_prompt(question: str, starter: str, function: str) -> tuple[str, str]:
    code = f"{_typing_imports(starter)}{starter}"
    beginning = f"\n\nBegin with this code:\n\n{code}" if starter else ""
    bare = starter and "class Solution" not in starter
    entry_point = MAIN_MODULE if not function else function if bare else f"Solution.{function}"
    return f"{question}{beginning}", entry_point


def _function_prompt(question: str, starter: str, function: str) -> tuple[str, str]:
    """Return a function with the question as its docstring, for a team to write together."""
    if not function:
        docs = docstring(f"{question}\n\n{_INPUT_NOTE}")
        return f"{_SIGNATURE}\n{docs}", SOLVE_FUNCTION
    signature = _signature(starter, function)
    return f"{_typing_imports(signature)}{signature}\n{docstring(question)}", function


def _signature(starter: str, function: str) -> str:
    """Return the first line of the function that the starter code begins."""
    for node in ast.walk(tree_of(f"{starter} pass", "the code to begin with")):
        if isinstance(node, ast.FunctionDef) and node.name == function:
            node.args.args = [a for a in node.args.args if a.arg != "self"]
            returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
            return f"def {function}({ast.unparse(node.args)}){returns}:"
    raise TaskError(f"the code to begin with has no function '{function}'")


def _typing_imports(code: str) -> str:
    """Return the import from `typing` that a published signature needs."""
    names = sorted(set(_CAPITALIZED_WORD.findall(code)) & set(typing.__all__))
    return f"from typing import {', '.join(names)}\n\n\n" if names else ""


def apps(row: Mapping[str, Any], *, form: ContestForm = "published") -> dict[str, Any]:
    """Convert a row of APPS: `question`, `input_output` as JSON, and `starter_code`.

    Args:
        form: `published` asks for a whole program or a method, `function` for a function.

    Raises:
        TaskError: a field is missing or malformed, or there are no cases.
    """
    published = field(row, str, "input_output")
    cases = _parse_json(published, "input_output", dict) if published.strip() else {}
    inputs, outputs = cases.get("inputs") or [], cases.get("outputs") or []
    if len(inputs) != len(outputs):
        raise TaskError(f"there are {len(inputs)} inputs and {len(outputs)} outputs")
    function = str(cases.get("fn_name") or "")
    if function:
        # Some published rows put the value into a list, and others do not.
        outputs = [[out, *out[:1]] if isinstance(out, list) else [out] for out in outputs]
    pairs = list(zip(inputs, outputs, strict=True))
    return {
        "task_id": f"APPS/{row.get('problem_id', row.get('id', ''))}",
        **problem_fields(row, form, field(row, str, "question"), function, pairs),
    }


def livecodebench(row: Mapping[str, Any], *, form: ContestForm = "published") -> dict[str, Any]:
    """Convert a row of LiveCodeBench: `question_content`, `public_test_cases`,
    `private_test_cases`.

    Private cases may be packed as they are published. Options: see `apps`.

    Raises:
        TaskError: a field is missing, or the cases cannot be read.
    """
    texts = {"public_test_cases": field(row, str, "public_test_cases")}
    name = "private_test_cases"
    try:
        texts[name] = unpack(str(row.get(name) or "[]"))
    except TaskError as error:
        raise TaskError(f"the field '{name}': {error}") from error
    cases = [case for key, text in texts.items() for case in _parse_json(text, key, list)]
    metadata = _parse_json(str(row.get("metadata") or "{}"), "metadata", dict)
    function = str(metadata.get("func_name") or "")
    pairs = [(field(case, str, "input"), field(case, str, "output")) for case in cases]
    values = [_parse_case(*pair) for pair in pairs] if function else pairs
    return {
        "task_id": f"LiveCodeBench/{field(row, str, 'question_id')}",
        **problem_fields(row, form, field(row, str, "question_content"), function, values),
    }


def _parse_case(text: str, value: str) -> tuple[list[Any], list[Any]]:
    """Return a case of a function, with one argument per line, as JSON."""
    lines = text.strip().split("\n") if text.strip() else []
    arguments = [_parse_json(line, "input", object) for line in lines]
    return arguments, [_parse_json(value, "output", object)]


def _parse_json(text: str, name: str, kind: type) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TaskError(f"the field '{name}' is not JSON: {error}") from error
    if not isinstance(value, kind):
        raise TaskError(f"the field '{name}' holds a {type(value).__name__}, no {kind.__name__}")
    return value
