"""Fallback: the caller distrusts the helper and carries an implementation of its own.

Either the helper is called in a `try` with a handler that answers without it, or its value (or
whether there is a helper at all) is checked, and where the check fails the program computes the
answer itself.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from collab.analysis.dead_code import block_exits
from collab.analysis.schemes.match import Match, match
from collab.analysis.schemes.program import Program
from collab.analysis.schemes.statements import bound_in, gathered_in, given_back, is_own_work
from collab.analysis.scopes import Scope, evaluated

Statements = Sequence[ast.stmt]


def fallback(program: Program) -> Match | None:
    lines: set[int] = set()
    reasons: list[str] = []
    for scope in program.reachable:
        for node in scope.nodes:
            for found, why in (*_guarded(program, scope, node), *_checked(program, scope, node)):
                lines |= found
                reasons.append(why)
    return match("fallback", lines, reasons[0]) if lines else None


Found = Iterator[tuple[set[int], str]]


def _guarded(program: Program, scope: Scope, node: ast.AST) -> Found:
    """Calls whose exceptions end in an answer without the helper."""
    if not isinstance(node, ast.Try | ast.With):
        return
    handlers = _handlers(node)
    calls = program.calls_in(scope, node.body)
    if calls and any(_answers_without(program, scope, node, handler) for handler in handlers):
        yield (
            {name.lineno for name in calls},
            f"calls '{program.helper}' where an exception leads to an answer without it",
        )


def _handlers(node: ast.Try | ast.With) -> list[list[ast.stmt]]:
    if isinstance(node, ast.Try):
        return [handler.body for handler in node.handlers]
    suppresses = any(
        isinstance(name, ast.Name | ast.Attribute)
        and (name.id if isinstance(name, ast.Name) else name.attr) == "suppress"
        for item in node.items
        for name in ast.walk(item.context_expr)
    )
    return [[]] if suppresses else []


def _answers_without(
    program: Program, scope: Scope, node: ast.stmt, handler: list[ast.stmt]
) -> bool:
    if program.calls_in(scope, handler):
        return False
    nodes = list(evaluated(handler))
    if any(True for _ in given_back(nodes)):
        return True
    changed = bound_in(handler) | {name for node in nodes for name in gathered_in(node)}
    if any(program.holds(scope.resolve(name)) for name in changed):
        return True
    return not block_exits(handler) and _answers_itself(program, scope, _behind(scope, node))


def _checked(program: Program, scope: Scope, node: ast.AST) -> Found:
    """Checks of a value that would be the answer, with another computation where they fail."""
    for test, branches in _checks(scope, node):
        lines = _doubts(program, scope, test)
        if lines and any(_answers_itself(program, scope, branch) for branch in branches):
            yield lines, f"checks what '{program.helper}' gives and else computes the answer itself"


def _checks(scope: Scope, node: ast.AST) -> Iterator[tuple[ast.expr, list[Statements]]]:
    match node:
        case ast.If(test=test, body=body, orelse=orelse):
            behind = _behind(scope, node) if block_exits(body) and not orelse else []
            yield test, [body, orelse, behind]
        case ast.IfExp(test=test, body=chosen, orelse=other):
            yield test, [_as_answer(chosen), _as_answer(other)]
        case ast.BoolOp(op=ast.Or(), values=[*checked, last]) if not _is_truth(last):
            for test in checked:
                yield test, [_as_answer(last)]


def _doubts(program: Program, scope: Scope, test: ast.expr) -> set[int]:
    """The lines of a test of what the function gives back, or of the helper's existence."""
    if program.of(scope, test) & program.answers(scope):
        return program.marks(scope, test)
    return program.mentions(scope, test) if program.answers(scope) else set()


def _answers_itself(program: Program, scope: Scope, statements: Statements) -> bool:
    """Whether statements compute an answer without the helper."""
    nodes = list(evaluated(statements))
    own = _own_results(program, scope, nodes)
    for value in given_back(nodes):
        if isinstance(value, ast.Name) and value.id in own:
            return True
        if not program.of(scope, value) and is_own_work(scope, value):
            return True
    return any(program.holds(scope.resolve(name)) for name in own)


def _own_results(program: Program, scope: Scope, nodes: Sequence[ast.AST]) -> set[str]:
    """The variables that hold what `nodes` compute without the helper."""
    assigned = [n for n in nodes if isinstance(n, ast.Assign) and not program.of(scope, n.value)]
    computed = [node for node in assigned if is_own_work(scope, node.value)]
    fresh = bound_in(assigned)
    updated = {
        name
        for node in nodes
        for name in gathered_in(node)
        if name in fresh or not program.holds(scope.resolve(name))
    }
    return bound_in(computed) | updated


def _behind(scope: Scope, node: ast.stmt) -> list[ast.stmt]:
    """The function's statements below `node`."""
    end = node.end_lineno or node.lineno
    return [n for n in scope.nodes if isinstance(n, ast.stmt) and n.lineno > end]


def _is_truth(value: ast.expr) -> bool:
    """Whether `or` before this joins conditions; otherwise it stands for a missing value."""
    return isinstance(value, ast.Compare) or (
        isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.Not)
    )


def _as_answer(value: ast.expr) -> Statements:
    return [ast.copy_location(ast.Return(value=value), value)]
