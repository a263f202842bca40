"""Code that can run: a syntax tree without the statements that are visibly dead."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_BLOCK_FIELDS = ("body", "orelse", "finalbody")


def prune(tree: ast.Module) -> ast.Module:
    """Remove dead code from `tree`, in place.

    Dead code is: statements after `return`, `raise`, `break` and `continue`; branches and loops
    whose condition is a literal (`if False`, `while 0`, `for _ in ()`); and operands that `and`,
    `or` and conditional expressions never reach.
    """
    _Pruner().visit(tree)
    return tree


def truth_value(expression: ast.expr) -> bool | None:
    """Return the truth value of an expression of literals, or None if it is unknown.

    The result of `is` is unknown. So is the result of a call, because a program may rebind any
    name, even `set`.
    """
    if isinstance(expression, ast.UnaryOp) and isinstance(expression.op, ast.Not):
        operand = truth_value(expression.operand)
        return None if operand is None else not operand
    if isinstance(expression, ast.BoolOp):
        return _truth_of_operands(expression)
    try:
        if isinstance(expression, ast.Compare):
            return _compare(expression)
        return bool(_literal_value(expression))
    except (ValueError, TypeError):
        return None


def _truth_of_operands(expression: ast.BoolOp) -> bool | None:
    known = [truth_value(value) for value in expression.values]
    decisive = isinstance(expression.op, ast.Or)
    if decisive in known:
        return decisive
    return None if None in known else not decisive


def _compare(expression: ast.Compare) -> bool | None:
    values = [_literal_value(node) for node in (expression.left, *expression.comparators)]
    for compare, left, right in zip(expression.ops, values, values[1:], strict=False):
        if type(compare) not in _COMPARISONS:
            return None
        if not _COMPARISONS[type(compare)](left, right):
            return False
    return True


def _literal_value(expression: ast.expr) -> Any:
    """Return the value of a literal.

    Raises:
        ValueError: the expression is not a literal.
        Exception: the literal's own error.
    """
    if any(isinstance(node, ast.Call) for node in ast.walk(expression)):
        raise ValueError("a call is not a literal")
    return ast.literal_eval(expression)


class _Pruner(ast.NodeTransformer):
    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for block in _BLOCK_FIELDS:
            statements = getattr(node, block, None)
            if isinstance(statements, list):
                setattr(node, block, _drop_unreachable(statements))
        return node

    def visit_If(self, node: ast.If | ast.IfExp) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        known = truth_value(node.test)
        if known is None:
            return node
        return node.body if known else node.orelse

    visit_IfExp = visit_If

    def visit_While(self, node: ast.While) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        return node.orelse if truth_value(node.test) is False else node

    def visit_For(self, node: ast.For) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        return node.orelse if truth_value(node.iter) is False else node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        decisive = isinstance(node.op, ast.Or)
        for position, value in enumerate(node.values):
            if truth_value(value) is decisive:
                node.values = node.values[: position + 1]
                break
        return node


def _drop_unreachable(statements: list[ast.stmt]) -> list[ast.stmt]:
    for position, statement in enumerate(statements):
        if _is_exit(statement):
            return statements[: position + 1]
    return statements


def _is_exit(statement: ast.AST) -> bool:
    """Return True if control never passes from the statement to the next one."""
    match statement:
        case ast.Return() | ast.Raise() | ast.Break() | ast.Continue():
            return True
        case ast.Assert(test=test):
            return truth_value(test) is False
        case ast.If(body=body, orelse=orelse):
            return block_exits(body) and block_exits(orelse)
        case ast.While(test=test):
            return truth_value(test) is True and not _has_break(statement)
        case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=finalbody):
            goes_on = not block_exits([*body, *orelse])
            caught = all(block_exits(handler.body) for handler in handlers)
            return block_exits(finalbody) or (not goes_on and caught)
    return False


def block_exits(statements: list[ast.stmt]) -> bool:
    """Return True if control never passes from the statements to the code after them."""
    return bool(statements) and _is_exit(statements[-1])


def _has_break(loop: ast.While) -> bool:
    pending: list[ast.AST] = list(loop.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Break):
            return True
        if not isinstance(node, ast.For | ast.AsyncFor | ast.While | ast.FunctionDef):
            pending.extend(ast.iter_child_nodes(node))
        elif isinstance(node, ast.For | ast.AsyncFor | ast.While):
            pending.extend(node.orelse)
    return False
