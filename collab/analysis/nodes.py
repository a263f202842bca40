"""What single nodes of a syntax tree bind, call, and decide by."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from collab.analysis.scopes import Definition, evaluated_at_definition

_SEQUENCE = ast.Tuple | ast.List


def assignment(node: ast.AST) -> tuple[list[ast.expr], ast.expr | None]:
    """What a node binds, and the expression that the new values come from."""
    match node:
        case ast.Assign(targets=targets, value=value):
            return targets, value
        case ast.AnnAssign() | ast.AugAssign() | ast.NamedExpr():
            return [node.target], node.value
        case ast.For() | ast.AsyncFor() | ast.comprehension():
            return [node.target], node.iter
        case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
            return [target], value
    return [], None


def bindings(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """What a node binds, each with its own source: `a, b = x, y` binds a to x and b to y."""
    targets, value = assignment(node)
    for target in targets:
        if isinstance(node, ast.Assign):
            yield from _unpacked(target, node.value)
        else:
            yield target, value


def _unpacked(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    pairs = _pairs(target, value)
    if not pairs:
        yield target, value
    for pair in pairs:
        yield from _unpacked(*pair)


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """The items of two tuples or lists, side by side, where their numbers are known and equal."""
    if not (isinstance(target, _SEQUENCE) and isinstance(value, _SEQUENCE)):
        return []
    if len(target.elts) != len(value.elts):
        return []
    starred = any(isinstance(item, ast.Starred) for item in (*target.elts, *value.elts))
    return [] if starred else list(zip(target.elts, value.elts, strict=True))


def deciding(node: ast.AST) -> ast.expr | None:
    """The expression by which a statement decides how the program goes on."""
    match node:
        case ast.If(test=value) | ast.While(test=value) | ast.Assert(test=value):
            return value
        case ast.For(iter=value) | ast.AsyncFor(iter=value) | ast.Match(subject=value):
            return value
        case ast.Raise(exc=value) | ast.match_case(guard=value):
            return value
    return None


def arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def indices(node: ast.expr) -> list[ast.expr]:
    """The indices and keys on the way from a variable to what of it is changed."""
    found = []
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Subscript):
            found.append(node.slice)
        node = node.value
    return found


def called_names(node: ast.AST) -> Iterator[ast.Name]:
    if isinstance(node, ast.Call):
        candidates: list[ast.AST] = [node.func, *arguments(node)]
    elif isinstance(node, Definition):
        candidates = [*evaluated_at_definition(node)]
    elif isinstance(node, ast.List | ast.Tuple | ast.Set):
        candidates = [*node.elts]
    elif isinstance(node, ast.Dict):
        candidates = [*node.values]
    else:
        return
    yield from (name for name in candidates if isinstance(name, ast.Name))
