"""What statements do: where a program decides, and where it gathers values."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator

from collab.analysis.nodes import arguments
from collab.analysis.scopes import Scope, evaluated

FILTERS = frozenset({"filter", "filterfalse", "takewhile", "dropwhile"})
"""Functions that keep items by what their first argument says of each."""

_COMPREHENSION = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_COMPUTES = ast.Call | ast.BinOp | ast.BoolOp | ast.Compare | ast.Subscript | _COMPREHENSION

_GATHERING = frozenset(
    {"add", "append", "appendleft", "extend", "heappush", "insert", "push", "setdefault", "update"}
)


def tests_of(node: ast.AST) -> list[ast.expr]:
    """The expressions by which a node decides what is done, how often, or what is kept."""
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.Assert(test=test):
            return [test]
        case ast.IfExp(test=test) | ast.Match(subject=test) | ast.For(iter=test):
            return [test]
        case ast.match_case(guard=ast.expr() as test) | ast.Call(func=ast.Subscript(slice=test)):
            return [test]
        case ast.Call(func=ast.Name(id=name), args=[test, *_]) if name in FILTERS:
            return [test]
        case ast.comprehension(ifs=tests):
            return tests
    return []


def given_back(nodes: Iterable[ast.AST]) -> Iterator[ast.expr]:
    """The values that `nodes` return or yield."""
    for node in nodes:
        if isinstance(node, ast.Return | ast.Yield | ast.YieldFrom) and node.value is not None:
            yield node.value


def gathered(node: ast.AST) -> tuple[ast.expr, list[ast.expr]] | None:
    """What a statement adds to, and the values that it adds: `total += x`, `out.append(x)`."""
    match node:
        case ast.AugAssign(target=target, value=value):
            return target, [target, value] if isinstance(target, ast.Subscript) else [value]
        case ast.Assign(targets=[ast.Subscript() as target], value=value):
            return target.value, [target.slice, value]
        case ast.Call(func=ast.Attribute(value=target, attr=name)) if name in _GATHERING:
            return target, [*_indices(target), *arguments(node)]
        case ast.Call(func=ast.Name(id=name), args=[target, *values]) if name in _GATHERING:
            return target, values
    return None


def gathered_in(node: ast.AST) -> set[str]:
    """The name of the variable that a statement adds to."""
    found = gathered(node)
    target = found[0] if found else None
    while isinstance(target, ast.Attribute | ast.Subscript):
        target = target.value
    return {target.id} if isinstance(target, ast.Name) else set()


def is_own_work(scope: Scope, expression: ast.expr) -> bool:
    """Whether an expression computes something from the variables around it."""
    if _is_filler(expression):
        return False
    nodes = list(ast.walk(expression))
    local = (n for n in nodes if isinstance(n, ast.Name) and scope.resolve(n.id).scope)
    return any(isinstance(node, _COMPUTES) for node in nodes) and any(local)


def _is_filler(expression: ast.expr) -> bool:
    """`[0] * n`: as many constants as are needed."""
    match expression:
        case ast.BinOp(left=ast.List(elts=[ast.Constant()]) | ast.Constant(str()), op=ast.Mult()):
            return True
    return False


def bound_in(nodes: Iterable[ast.AST]) -> set[str]:
    """The variables that `nodes` and what is within them assign."""
    return {*bindings_of(evaluated(nodes))}


def bindings_of(nodes: Iterable[ast.AST]) -> Counter[str]:
    """How often each variable is assigned."""
    stores = (n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    return Counter(stores)


def _indices(target: ast.expr) -> list[ast.expr]:
    return [target.slice] if isinstance(target, ast.Subscript) else []
