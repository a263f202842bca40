"""Decides on the syntax tree whether an entry point really uses a helper function.

A use is a call of the helper's global name whose value flows into the entry point's result, a
condition or another call. The call must be in code that can run and that the entry point can reach.
Names flow by assignment, regardless of order. A run with the helper replaced settles the cases that
a tree cannot decide.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from collab.analysis.dead_code import prune
from collab.analysis.flow import Flow
from collab.analysis.scopes import Function, Scope, Variable, scopes_of
from collab.syntax import parse


def returns_value(tree: ast.Module, name: str) -> bool | None:
    """Return True if the module-level function `name` returns or yields a value of its own.

    A `return` in a nested function, a bare `return`, `return None` and dead code do not count. The
    result is None if there is no such function. Dead code is removed from `tree`.
    """
    function = entry_scope(scopes_of(prune(tree)), name)
    if function is None:
        return None
    return any(_is_value_return(node) for node in function.nodes)


def _is_value_return(node: ast.AST) -> bool:
    if isinstance(node, ast.Yield | ast.YieldFrom):
        return True
    if not isinstance(node, ast.Return) or node.value is None:
        return False
    return not (isinstance(node.value, ast.Constant) and node.value.value is None)


_OWN_VALUE = "a value of its own"
"""Also a choice between different values."""
_MAX_CHAIN_LENGTH = 50


class _ForwardedCalls:
    """The helper call that a function forwards, `_OWN_VALUE` for any other value, or "" for none.

    `return helper(x)`, `y = helper(x); return y` and chains of such functions only forward. A
    return without the helper, an operation on its value, or a choice between different calls counts
    as the function's own work.
    """

    def __init__(self, scopes: list[Scope], aliases: set[Variable]) -> None:
        self._aliases = aliases
        self._functions = {scope.variable: scope for scope in scopes[1:] if not scope.is_class}
        self._values = {scope.number: _assigned_expressions(scope) for scope in scopes}
        self._known: dict[Variable, str] = {}
        self._chain = 0

    def find(self, scope: Scope) -> str:
        value = ""
        for node in scope.nodes:
            if isinstance(node, ast.Return | ast.YieldFrom) and node.value is not None:
                value = _merge_values(value, self._expression_value(scope, node.value))
            elif isinstance(node, ast.Yield):
                value = _merge_values(value, _OWN_VALUE)
        return value

    def _expression_value(self, scope: Scope, node: ast.expr) -> str:
        match node:
            case ast.Await(value=value) | ast.NamedExpr(value=value):
                return self._expression_value(scope, value)
            case ast.IfExp(body=body, orelse=orelse):
                return _merge_values(
                    self._expression_value(scope, body), self._expression_value(scope, orelse)
                )
            case ast.Call(func=ast.Name(id=name)):
                function = scope.resolve(name)
                if function in self._aliases:
                    return ast.dump(node)
                return (
                    self._variable_value(scope, function)
                    if function in self._functions
                    else _OWN_VALUE
                )
            case ast.Name(id=name):
                variable = scope.resolve(name)
                return (
                    _OWN_VALUE
                    if variable in self._functions
                    else self._variable_value(scope, variable)
                )
        return _OWN_VALUE

    def _variable_value(self, scope: Scope, variable: Variable) -> str:
        """Return the value of a function or a variable, or "" while it is being computed."""
        if self._chain > _MAX_CHAIN_LENGTH:
            return _OWN_VALUE
        if variable not in self._known:
            self._known[variable] = ""
            self._chain += 1
            self._known[variable] = self._compute_value(scope, variable)
            self._chain -= 1
        return self._known[variable]

    def _compute_value(self, scope: Scope, variable: Variable) -> str:
        if variable in self._functions:
            return self.find(self._functions[variable]) or _OWN_VALUE
        values = self._values[scope.number].get(variable.name)
        if variable.scope != scope.number or not values:
            return _OWN_VALUE
        forwarded = ""
        for value in values:
            current = self._expression_value(scope, value) if value is not None else _OWN_VALUE
            forwarded = _merge_values(forwarded, current)
        return forwarded


def _merge_values(one: str, other: str) -> str:
    """Return the value that both have, or that only one has, or `_OWN_VALUE` if they differ."""
    return one or other if not (one and other) or one == other else _OWN_VALUE


def _assigned_expressions(scope: Scope) -> dict[str, list[ast.expr | None]]:
    """Map each name to the assigned expressions. None represents any other kind of binding."""
    values: defaultdict[str, list[ast.expr | None]] = defaultdict(list)
    plain = set()
    for node in scope.nodes:
        target: ast.expr | None = None
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr):
            target = node.target
        if isinstance(target, ast.Name):
            plain.add(id(target))
            values[target.id].append(getattr(node, "value", None))
    for node in scope.nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in plain:
            values[node.id].append(None)
    for name in (*scope.parameters, *_names_changed_in_place(scope)):
        values[name].append(None)
    return values


def _names_changed_in_place(scope: Scope) -> Iterator[str]:
    """Yield the variables that are changed in place, in part or by a method."""
    for node in scope.nodes:
        match node:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))):
                yield name
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
                yield name
            case ast.Attribute(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
                yield name


@dataclass(frozen=True)
class HelperUse:
    """An entry point's use of another agent's helper."""

    lines: tuple[int, ...] = ()
    """Lines of the calls that can run."""
    used: bool = False
    """The value of at least one call flows on."""
    wrapper: bool = False
    """Everything that the entry point returns is the helper's value, unchanged."""
    reason: str = ""

    @property
    def called(self) -> bool:
        return bool(self.lines)


def helper_use(source: str, entry_point: str, helper: str) -> HelperUse:
    """Return how the function `entry_point` of `source` uses the global function `helper`."""
    try:
        tree = parse(source)
    except SyntaxError:
        return HelperUse(reason="the code does not parse")
    redefined = _is_redefined(scopes_of(tree), helper)  # including code that seems dead
    scopes = scopes_of(prune(tree))
    entry = entry_scope(scopes, entry_point)
    if entry is None:
        return HelperUse(reason=f"'{entry_point}' is not defined")
    if redefined:
        return HelperUse(reason=f"'{helper}' is also defined by the agent of '{entry_point}'")
    flow = Flow(scopes, entry, helper)
    lines = tuple(sorted({node.lineno for node in flow.calls}))
    if not lines:
        hidden = any(helper in scope.bound_names for scope in scopes)
        local = f" (a local '{helper}' hides it)" if hidden else ""
        return HelperUse(
            reason=f"'{entry_point}' never calls '{helper}' in code that can run{local}"
        )
    if not flow.is_used:
        return HelperUse(lines, reason=f"the value of '{helper}' is not used")
    return HelperUse(
        lines,
        used=True,
        wrapper=_ForwardedCalls(scopes, flow.aliases).find(entry) not in ("", _OWN_VALUE),
        reason=f"'{entry_point}' uses the value of '{helper}'",
    )


def entry_scope(scopes: list[Scope], name: str) -> Scope | None:
    """Return the last module-level function called `name`, or None if there is none."""
    module, *inner = scopes
    named = (
        scope
        for scope in inner
        if scope.parent is module and isinstance(scope.node, Function) and scope.node.name == name
    )
    return max(named, key=lambda scope: scope.node.lineno, default=None)  # type: ignore[union-attr]


def _is_redefined(scopes: list[Scope], helper: str) -> bool:
    module, *inner = scopes
    return helper in module.bound_names or any(
        helper in scope.bound_names and helper in scope.global_names for scope in inner
    )
