"""Decorator and wrapper: the helper does the core of the work on the way to the answer."""

from __future__ import annotations

import ast

from collab.analysis.schemes.coordination import repeated_calls
from collab.analysis.schemes.match import Match, match
from collab.analysis.schemes.program import Program
from collab.analysis.schemes.statements import given_back
from collab.analysis.scopes import Scope, evaluated
from collab.analysis.wrapper import only_forwards


def decorator(program: Program) -> Match | None:
    """The caller guards edge cases or works on the value, around a call that is always made."""
    straight = set(program.calls) - repeated_calls(program)
    answers = _answers(program)
    if not straight or not answers:
        return None
    guards = _guards(program, program.entry)
    if not guards and only_forwards(program.scopes, program.entry, program.aliases):
        return None
    lines = {name.lineno for name in straight} | answers
    does = f"answers itself on line {min(guards)}" if guards else "works on the value"
    return match("decorator", lines, f"'{program.helper}' does the core, the caller {does}")


def wrapper(program: Program) -> Match | None:
    """The caller only forwards."""
    if not only_forwards(program.scopes, program.entry, program.aliases):
        return None
    lines = {name.lineno for name in program.calls} | _answers(program)
    return match("wrapper", lines, f"all it returns is what '{program.helper}' gives, unchanged")


def _answers(program: Program) -> set[int]:
    """The lines on which the entry point gives a value of the helper back."""
    entry = program.entry
    values = [value for value in given_back(entry.nodes) if program.of(entry, value)]
    return program.marks(entry, *values)


def _guards(program: Program, scope: Scope) -> set[int]:
    """The lines on which the function ends without the helper, exceptions it caught apart."""
    handlers = [node for node in scope.nodes if isinstance(node, ast.ExceptHandler)]
    caught = {id(node) for node in evaluated(handlers)}
    own = {id(value) for value in given_back(scope.nodes) if not program.of(scope, value)}
    return {
        node.lineno
        for node in scope.nodes
        if isinstance(node, ast.Raise | ast.Assert)
        or (isinstance(node, ast.Return) and id(node.value) in own)
        if id(node) not in caught
    }
