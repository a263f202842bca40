"""Expected values that a test of a class computes before it asks an object.

    assert shelf.sort(names) == sorted(names)    →    assert sorted(names) == shelf.sort(names)

A method may change its arguments, and the test sees the change. If Python computed the expected
value last, a method that empties a list could choose that value. Only comparisons are reordered: a
test that assigns the result first, and then computes the expected value from the changed argument,
still depends on the method.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

_MIRRORED_OPERATORS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.Eq,
    ast.NotEq: ast.NotEq,
    ast.Lt: ast.Gt,
    ast.LtE: ast.GtE,
    ast.Gt: ast.Lt,
    ast.GtE: ast.LtE,
}
_COMPUTED_NODES = (ast.Call, ast.Subscript, ast.BinOp, ast.ListComp, ast.SetComp, ast.DictComp)
_Target = ast.expr | str


def compute_expected_first(tree: ast.Module, candidates: Iterable[str]) -> ast.Module:
    """Return the test with each assert's expected value computed before the object's value."""
    ordered: ast.Module = _ExpectedFirst(_object_names(tree, candidates)).visit(tree)
    return ast.fix_missing_locations(ordered)


class _ExpectedFirst(ast.NodeTransformer):
    def __init__(self, objects: frozenset[str]) -> None:
        self._objects = objects

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        operator = _MIRRORED_OPERATORS.get(type(node.ops[0]))
        if (
            len(node.ops) > 1
            or operator is None
            or not self._is_computed_late(node.left, node.comparators[0])
        ):
            return node
        mirrored = ast.Compare(node.comparators[0], [operator()], [node.left])
        return ast.copy_location(mirrored, node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Rewrite `self.assertEqual(A, B)`, with B first, to `self.assertEqual(*(B, A)[::-1])`."""
        self.generic_visit(node)
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        is_comparison = name.startswith("assert") or name == "isclose"
        if is_comparison and len(node.args) > 1 and self._is_computed_late(*node.args[:2]):
            swapped = ast.Tuple(node.args[1::-1], ast.Load())
            back = ast.Slice(None, None, ast.Constant(-1))
            node.args[:2] = [ast.Starred(ast.Subscript(swapped, back, ast.Load()), ast.Load())]
        return node

    def _is_computed_late(self, first: ast.expr, second: ast.expr) -> bool:
        """Return True if the second is computed without an object, after the first used one."""
        computed = any(isinstance(node, _COMPUTED_NODES) for node in ast.walk(second))
        return computed and _mentions(first, self._objects) and not _mentions(second, self._objects)


def _object_names(tree: ast.Module, candidates: Iterable[str]) -> frozenset[str]:
    """Return names and attributes that an object, or the class, may have anywhere in the test."""
    bound = [pair for node in ast.walk(tree) for pair in _bindings(node)]
    objects, before = frozenset(candidates), frozenset[str]()
    while objects != before:
        before = objects
        objects |= {
            name
            for target, value in bound
            if _may_hold_object(value, before)
            for name in _target_names(target)
        }
    return objects


def _bindings(node: ast.AST) -> Iterator[tuple[_Target, ast.AST]]:
    """Yield the targets that a node binds, with their values."""
    match node:
        case ast.Assign(targets=targets, value=value):
            yield from ((target, value) for target in targets)
        case (
            ast.AnnAssign(target=target, value=ast.expr() as value)
            | ast.NamedExpr(target=target, value=value)
            | ast.For(target=target, iter=value)
            | ast.comprehension(target=target, iter=value)
            | ast.withitem(optional_vars=ast.expr() as target, context_expr=value)
        ):
            yield target, value
        case ast.FunctionDef(name=name):
            returned = (below for below in ast.walk(node) if isinstance(below, ast.Return))
            yield from ((name, below.value) for below in returned if below.value)


def _target_names(target: _Target) -> Iterator[str]:
    if isinstance(target, str):
        yield target
        return
    for node in ast.walk(target):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _may_hold_object(value: ast.AST, objects: frozenset[str]) -> bool:
    """Return True if a value may be or hold an object. A method's result is a copy."""
    match value:
        case ast.Call(func=ast.Attribute(value=owner)) if _mentions(owner, objects):
            return False
        case ast.Name(id=name) | ast.Attribute(attr=name) if name in objects:
            return True
    return any(_may_hold_object(node, objects) for node in ast.iter_child_nodes(value))


def _mentions(node: ast.AST, objects: frozenset[str]) -> bool:
    return any(
        getattr(below, "id", getattr(below, "attr", None)) in objects for below in ast.walk(node)
    )
