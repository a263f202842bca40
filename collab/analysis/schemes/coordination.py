"""Coordinator: the caller splits the work among several calls and gathers their values."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from collab.analysis.nodes import arguments, assignment
from collab.analysis.schemes.match import Match, match
from collab.analysis.schemes.program import Program
from collab.analysis.schemes.statements import bound_in, gathered, gathered_in, given_back, tests_of
from collab.analysis.scopes import Scope, evaluated

_FOR_EACH = frozenset({"map", "starmap", "reduce", "accumulate"})
"""Functions that call their first argument again and again."""

Parts = Sequence[ast.AST]


def coordinator(program: Program) -> Match | None:
    """Calls in a loop or comprehension that gathers, or several calls whose values meet."""
    split = {line for scope in program.reachable for line in _split(program, scope)}
    met = {line for scope in program.reachable for line in _met(program, scope)}
    if split:
        why = f"calls '{program.helper}' for each piece of the work and gathers the values"
        return match("coordinator", split | met, why)
    why = f"combines the values of several calls of '{program.helper}'"
    return match("coordinator", met, why) if met else None


def repeated_calls(program: Program) -> set[ast.Name]:
    """Where the helper is called again and again."""
    return {
        name
        for scope in program.reachable
        for node in scope.nodes
        for name in program.calls_in(scope, _repeated(node))
    }


def _split(program: Program, scope: Scope) -> Iterator[int]:
    for node in scope.nodes:
        calls = program.calls_in(scope, _repeated(node))
        lines = _gathering(program, scope, node) if calls else set()
        if lines:
            yield from lines
            yield from (name.lineno for name in calls)
    if scope is not program.entry:
        yield from _gathering_outside(program, scope)


def _repeated(node: ast.AST) -> Parts:
    """What of a node may be evaluated more than once."""
    match node:
        case ast.For(body=body) | ast.AsyncFor(body=body):
            return body
        case ast.While(test=test, body=body):
            return [test, *body]
        case ast.ListComp(elt=elt) | ast.SetComp(elt=elt) | ast.GeneratorExp(elt=elt):
            return [elt, *_inner(node.generators)]
        case ast.DictComp(key=key, value=value):
            return [key, value, *_inner(node.generators)]
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            keys = [keyword.value for keyword in node.keywords if keyword.arg == "key"]
            return node.args[:1] if name in _FOR_EACH else keys
    return []


def _inner(generators: list[ast.comprehension]) -> Iterator[ast.expr]:
    for position, generator in enumerate(generators):
        yield from generator.ifs
        if position:
            yield generator.iter


def _gathering(program: Program, scope: Scope, node: ast.AST) -> set[int]:
    """The lines on which values of the helper are added to others of their kind."""
    match node:
        case ast.For(body=body) | ast.AsyncFor(body=body) | ast.While(body=body):
            inside = list(evaluated(body))
            found = {line for part in inside for line in _added(program, scope, part)}
            return found | _carried(program, scope, inside)
        case ast.Call():
            return program.marks(scope, *_repeated(node))
    tests = [test for part in ast.walk(node) for test in tests_of(part)]
    kept = [part for part in _repeated(node) if part not in tests and program.of(scope, part)]
    return program.marks(scope, *kept)


def _added(program: Program, scope: Scope, node: ast.AST) -> set[int]:
    """The lines of `total += v`, `out.append(v)`, `found[k] = v`, `yield v`."""
    found = gathered(node)
    values = found[1] if found else [*given_back([node])] if _yields(node) else []
    return program.marks(scope, *values) if program.of(scope, *values) else set()


def _carried(program: Program, scope: Scope, inside: Sequence[ast.AST]) -> set[int]:
    """The lines that give a variable from outside a loop the value of the helper."""
    carried = program.assigned_beyond(scope, inside)
    return {
        line
        for node in inside
        for targets, value in [assignment(node)]
        if carried & bound_in(targets) and program.of(scope, value)
        for line in program.marks(scope, value)
    }


def _gathering_outside(program: Program, scope: Scope) -> Iterator[int]:
    """The lines on which a function of the program's own adds to a variable around it."""
    for node in scope.nodes:
        owners = {scope.resolve(name).scope for name in gathered_in(node)}
        if owners - {scope.number}:
            yield from _added(program, scope, node)


def _met(program: Program, scope: Scope) -> Iterator[int]:
    """The lines of expressions, tests apart, in which values of different calls meet."""
    tests = {id(part) for node in scope.nodes for t in tests_of(node) for part in ast.walk(t)}
    for node in scope.nodes:
        if id(node) in tests:
            continue
        operands = _operands(node)
        origins = [found for part in operands if (found := program.of(scope, part))]
        if len(origins) > 1 and len(frozenset().union(*origins)) > 1:
            yield from program.marks(scope, *operands)
    yield from _added_in_turn(program, scope)


def _operands(node: ast.AST) -> list[ast.expr]:
    """The expressions whose values a node brings together."""
    match node:
        case ast.BinOp(left=left, right=right):
            operands = [left, right]
        case ast.AugAssign(target=target, value=value):
            operands = [ast.copy_location(_loaded(target), target), value]
        case ast.Compare(left=left, comparators=others):
            operands = [left, *others]
        case ast.BoolOp(values=values) | ast.JoinedStr(values=values) | ast.Dict(values=values):
            operands = values
        case ast.Tuple(elts=values) | ast.List(elts=values) | ast.Set(elts=values):
            operands = values
        case ast.Call(func=ast.Attribute(value=value)):
            operands = [value, *arguments(node)]
        case ast.Call():
            operands = arguments(node)
        case _:
            operands = []
    return operands


def _loaded(target: ast.expr) -> ast.expr:
    """An assignment's target as an expression that reads it."""
    return ast.Name(target.id, ast.Load()) if isinstance(target, ast.Name) else target


def _added_in_turn(program: Program, scope: Scope) -> set[int]:
    """The lines of several statements that add values of different calls to one variable."""
    origins: dict[str, frozenset[str]] = {}
    lines: dict[str, set[int]] = {}
    for node in scope.nodes:
        _, values = gathered(node) or (None, [])
        for name in gathered_in(node):
            origins[name] = origins.get(name, frozenset()) | program.of(scope, *values)
            lines.setdefault(name, set()).update(program.marks(scope, *values))
    return {line for name in lines if len(origins[name]) > 1 for line in lines[name]}


def _yields(node: ast.AST) -> bool:
    return isinstance(node, ast.Yield | ast.YieldFrom)
