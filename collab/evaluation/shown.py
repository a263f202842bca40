"""Tests that a code problem shows to everyone, and further inputs like theirs."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any

from collab.agents.parsers import docstring
from collab.feedback.execution import examples_of
from collab.syntax import parse

MOST_INPUTS = 12
"""Further inputs of one problem."""


def shown_asserts(public: Mapping[str, Any]) -> list[str]:
    """The tests that the prompt shows: its asserts, and its examples as asserts."""
    prompt, entry_point = str(public.get("prompt", "")), str(public.get("entry_point", ""))
    lines = [line.strip() for line in docstring(prompt).splitlines()]
    asserts = [line for line in lines if line.startswith("assert ") and _parses(line)]
    examples = [
        f"assert {example.call} == {example.expected}"
        for example in examples_of(prompt, entry_point)
        if not any(example.call in shown for shown in asserts)
    ]
    return [*asserts, *examples]


def further_calls(public: Mapping[str, Any]) -> list[str]:
    """Calls like those that the prompt shows, each with one argument changed.

    No answer is known for them: programs are compared by what they return.
    """
    entry_point = str(public.get("entry_point", ""))
    calls = [call for shown in shown_asserts(public) for call in _calls(shown, entry_point)]
    changed = dict.fromkeys(_text(entry_point, args) for call in calls for args in _changed(call))
    known = {_text(entry_point, args) for args in calls}
    return [call for call in changed if call not in known][:MOST_INPUTS]


def _parses(line: str) -> bool:
    try:
        parse(line)
    except SyntaxError:
        return False
    return True


def _calls(source: str, entry_point: str) -> Iterator[list[Any]]:
    """Yield the arguments of the calls of `entry_point` whose arguments are literals."""
    for node in ast.walk(parse(source)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            continue
        if node.func.id == entry_point and not node.keywords:
            try:
                yield [ast.literal_eval(argument) for argument in node.args]
            except ValueError:
                continue


def _changed(arguments: list[Any]) -> Iterator[list[Any]]:
    for place, value in enumerate(arguments):
        for other in _like(value):
            yield [*arguments[:place], other, *arguments[place + 1 :]]


def _like(value: Any) -> list[Any]:
    """Other values of the same type."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return [value + 1, value - 1, 2 * value, -value]
    if isinstance(value, str | list | tuple):
        return [value[::-1], value[:-1], 2 * value, value[:0]]
    return []


def _text(entry_point: str, arguments: list[Any]) -> str:
    return f"{entry_point}({', '.join(map(repr, arguments))})"
