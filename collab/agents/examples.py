"""Examples of a function: calls with their expected values, in prompts and in agents' answers."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from collab.agents.joins import preamble
from collab.syntax import module_functions, parse

_SEPARATOR = re.compile(
    r"[ \t]*,?[ \t]*(?:#[ \t]*)?(?:➞|→|==>|=>|->|==|=|should return|will return|returns?)[ \t]*"
)
_LITERAL_END = re.compile(
    r"[ \t]*(?:$|[;#(]|\.(?![.\d])|,(?!\d)|\s(?!(?:or|and|if|in|is|not|for)\b)\w)"
)
_OPERATOR = re.compile(r"(?:\S\s*[-+*/%]|\b(?:not|or))\s*$")
"""The end of a text in which the next call is a part of a larger expression. A dash or star at the
start of a line marks an item of a list.
"""
_INPUT_WITH_OUTPUT = re.compile(
    r"^[ \t]*>>>.*(?:\n[ \t]*\.\.\..*)*(?=\n[ \t]*(?!>>>|\.\.\.)\S)", re.MULTILINE
)
_JSON_WORDS = {"true": "True", "false": "False", "null": "None"}
_MAX_EXAMPLES = 50
_MAX_LITERAL = 500
_MAX_TRIES = 2000
"""Largest number of strings to parse in a text, which may repeat `f(1) == f(1) == ...`."""


@dataclass(frozen=True)
class Example:
    """A call of the function, and its value, as strings."""

    call: str
    """An expression that calls the entry point, on one line."""
    expected: str
    """Expected value, as a Python literal."""


def examples_of(prompt: str, entry_point: str) -> list[Example]:
    """Return the distinct examples in a prompt, in order. Skip values that are not literals.

    Supported are `>>> f(1)` with the value on the next lines, and `f(1)` followed by the value
    after an arrow, an equals sign, or `returns`.
    """
    text = _docstring(prompt, entry_point)
    known = {entry_point, *dir(builtins), *_prompt_functions(prompt, entry_point)}
    examples = [
        *_session_examples(text, entry_point, known),
        *_inline_examples(_INPUT_WITH_OUTPUT.sub("", text), entry_point),
    ]
    return list(dict.fromkeys(examples))[:_MAX_EXAMPLES]


def asserted_examples(text: str, entry_point: str) -> list[Example]:
    """Return the distinct examples in an agent's answer, such as `assert f(1) == 2`, in order.

    Arguments and values are literals, so an example runs nothing but the function.
    """
    return list(dict.fromkeys(_inline_examples(text, entry_point)))[:_MAX_EXAMPLES]


def make_test(examples: Sequence[Example]) -> str:
    """Return the source of a sandbox test with one assert per example, the first on line 2."""
    asserts = [f"    assert {e.call} == {e.expected}" for e in examples]
    return "\n".join(["def check(candidate):", *(asserts or ["    pass"]), ""])


def _docstring(prompt: str, entry_point: str) -> str:
    try:
        function = module_functions(parse(prompt)).get(entry_point)
    except SyntaxError:
        return prompt
    text = ast.get_docstring(function) if function else None
    return prompt if text is None else text


def _prompt_functions(prompt: str, entry_point: str) -> Iterator[str]:
    try:
        yield from module_functions(parse(preamble(prompt, entry_point)))
    except SyntaxError:
        return


def _session_examples(text: str, entry_point: str, known: set[str]) -> Iterator[Example]:
    """Yield examples after `>>>`."""
    lines = [line.strip() for line in text.split("\n")]
    for number, line in enumerate(lines):
        if not line.startswith(">>>"):
            continue
        source, end = [line[3:]], number + 1
        while end < len(lines) and lines[end].startswith("..."):
            source.append(lines[end][3:])
            end += 1
        call = _parse_expression("\n".join(source), entry_point, known)
        expected = _leading_literal(lines[end:])
        if call and expected:
            yield Example(call, expected)


def _parse_expression(source: str, entry_point: str, known: set[str]) -> str | None:
    try:
        body = parse(source.strip()).body
    except SyntaxError:
        return None
    if len(body) != 1 or not isinstance(body[0], ast.Expr):
        return None
    loaded = {node.id for node in ast.walk(body[0]) if isinstance(node, ast.Name)}
    if entry_point not in loaded or not loaded <= known or "print" in loaded:
        return None  # a printed value may be of any type
    test = ast.Compare(body[0].value, [ast.Eq()], [ast.Constant(0)])  # in brackets if `==` needs it
    return ast.unparse(test).removesuffix(" == 0")


def _leading_literal(lines: list[str]) -> str | None:
    """Return the literal in the longest run of lines up to a blank line or a prompt. Return None if
    another literal follows, as in the output of several prints.
    """
    want = [*takewhile(lambda line: line and not line.startswith(">>>"), lines[:20])]
    for end in range(len(want), 0, -1):
        if literal := _parse_literal(" ".join(want[:end])):
            return None if any(map(_parse_literal, want[end : end + 1])) else literal
    return None


def _inline_examples(text: str, entry_point: str) -> Iterator[Example]:
    """Yield examples of the form `f(1) => 2`."""
    tries = iter(range(_MAX_TRIES))
    for match in re.finditer(rf"(?<![\w.]){re.escape(entry_point)}\(", text):
        start = match.start()
        call = _leading_call(text[start : start + _MAX_LITERAL], len(entry_point), tries)
        if call is None:
            continue
        before = text[max(0, start - _MAX_LITERAL) : start].rpartition("\n")[2]
        if _OPERATOR.search(before):
            continue
        rest = text[start + len(call) : start + len(call) + 2 * _MAX_LITERAL].partition("\n")[0]
        separator = _SEPARATOR.match(rest)
        literal = _parse_assert_literal if "assert " in before else _parse_literal
        expected = _literal_prefix(rest[separator.end() :], literal, tries) if separator else None
        if expected and _has_literal_arguments(call):
            yield Example(ast.unparse(ast.parse(call, mode="eval")), expected)


def _leading_call(text: str, bracket: int, tries: Iterator[int]) -> str | None:
    """Return the call at the start of `text`, up to its closing bracket."""
    for match, _ in zip(re.finditer(r"\)", text[bracket:]), tries, strict=False):
        call = text[: bracket + match.end()]
        try:
            tree = parse(call).body
        except SyntaxError:
            continue
        is_call = len(tree) == 1 and isinstance(tree[0], ast.Expr)
        return call if is_call and isinstance(tree[0].value, ast.Call) else None  # type: ignore[attr-defined]
    return None


def _has_literal_arguments(call: str) -> bool:
    node = ast.parse(call, mode="eval").body
    assert isinstance(node, ast.Call)
    values = [*node.args, *(keyword.value for keyword in node.keywords)]
    return all(_parse_literal(ast.unparse(value)) for value in values)


def _literal_prefix(
    text: str, literal: Callable[[str], str | None], tries: Iterator[int]
) -> str | None:
    """Return the longest literal at the start of `text` that no expression continues."""
    text = text.rstrip()[:_MAX_LITERAL]
    for end in range(len(text), 0, -1):
        ends_clause = text[end - 1] in ".,"
        if ends_clause or not _LITERAL_END.match(text[end:]):
            continue
        if next(tries, None) is None:
            return None
        if value := literal(text[:end]):
            return value
    return None


def _parse_assert_literal(text: str) -> str | None:
    """Return `text` as `_parse_literal` does, or None if it has the message of an assert."""
    try:
        (statement,) = parse(f"assert {text}").body
    except (SyntaxError, ValueError):
        return None
    return None if getattr(statement, "msg", None) else _parse_literal(text)


def _parse_literal(text: str) -> str | None:
    """Return `text` as a Python literal. Return None if it is none, is in plain brackets, has a
    comma within a number, such as 1,000, or leaves something out with dots.
    """
    text = _JSON_WORDS.get(text.strip(), text.strip())
    try:
        value = ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    is_tuple, has_brackets = isinstance(value, tuple), text.startswith("(")
    is_number = is_tuple and not has_brackets and re.search(r"\d,\d", text)
    if is_number or (has_brackets and not is_tuple) or "Ellipsis" in repr(value):
        return None
    return repr(value)
