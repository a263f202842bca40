"""Whether a function gives a value back."""

from __future__ import annotations

import ast

from collab.analysis.dead_code import prune
from collab.analysis.scopes import Function, scopes_of


def returns_value(tree: ast.Module, name: str) -> bool | None:
    """Whether the module-level function `name` returns or yields a value of its own.

    A `return` of a function nested in it, a bare `return`, `return None` and dead code do not
    count. None when there is no such function. `tree` loses its dead code.
    """
    module, *inner = scopes_of(prune(tree))
    named = [
        scope
        for scope in inner
        if scope.parent is module and isinstance(scope.node, Function) and scope.node.name == name
    ]
    if not named:
        return None
    last = max(named, key=lambda scope: scope.node.lineno)  # type: ignore[union-attr]
    return any(_gives_value(node) for node in last.nodes)


def _gives_value(node: ast.AST) -> bool:
    if isinstance(node, ast.Yield | ast.YieldFrom):
        return True
    if not isinstance(node, ast.Return) or node.value is None:
        return False
    return not (isinstance(node.value, ast.Constant) and node.value.value is None)
