"""Data flow between the variables of a program that an entry point can reach."""

from __future__ import annotations

import ast
import builtins
from collections import defaultdict
from collections.abc import Iterable, Iterator

from collab.analysis.scopes import Definition, Scope, Variable, closure, definition_expressions

SINK = Variable(-1, "sink")
"""Target of every value that decides something."""

_VALUE_SCOPE = -3
"""Scope number of the variables that represent values of single expressions."""
_VALUELESS_NODES = (ast.expr_context, ast.operator, ast.boolop, ast.unaryop, ast.cmpop)

_PURE_BUILTINS = frozenset(dir(builtins)) - {"setattr", "exec", "eval", "next"}


class Flow:
    """The calls of `helper` that `entry` can reach, and the flow of their values."""

    def __init__(self, scopes: list[Scope], entry: Scope, helper: str) -> None:
        self._scopes, self.entry = scopes, entry
        self._edges: defaultdict[Variable, set[Variable]] = defaultdict(set)
        self._values: dict[int, Variable] = {}
        self._scope_of_node = {id(scope.node): scope for scope in scopes}
        self.aliases = _aliases(scopes, Variable(0, helper))
        self.calls: list[ast.expr] = []
        self.reachable = _reachable(scopes, entry)
        called = [self._find_calls(scope) for scope in self.reachable]
        self._called_ids: set[int] = set().union(*called)
        for scope in self.reachable:
            self._connect_scope(scope)

    @property
    def is_used(self) -> bool:
        """True if the value of at least one call decides something."""
        return SINK in closure(self.aliases, self._edges.__getitem__)

    def _find_calls(self, scope: Scope) -> set[int]:
        """Return the helper's names that are called, or passed on to be called."""
        names = set()
        for node in scope.nodes:
            for name in _called_names(node):
                if scope.resolve(name.id) in self.aliases:
                    names.add(id(name))
                    self.calls.append(name)
        return names

    def _read_values(self, scope: Scope, expressions: Iterable[ast.AST | None]) -> set[Variable]:
        """Return the values of `expressions`, each as a variable that its parts flow into.

        Every expression is read once, even if several statements and targets share it.
        """
        return {self._read_value(scope, node) for node in expressions if node is not None}

    def _read_value(self, scope: Scope, expression: ast.AST) -> Variable:
        pending: list[ast.AST] = []

        def value_of(node: ast.AST) -> Variable:
            if id(node) not in self._values:
                self._values[id(node)] = Variable(_VALUE_SCOPE, str(len(self._values)))
                pending.append(node)
            return self._values[id(node)]

        whole = value_of(expression)
        while pending:
            node = pending.pop()
            value = value_of(node)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                self._add_edges(self._name_sources(scope, node), [value])
            for part in ast.iter_child_nodes(node):
                if not isinstance(part, _VALUELESS_NODES):
                    self._edges[value_of(part)].add(value)
        return whole

    def _name_sources(self, scope: Scope, name: ast.Name) -> set[Variable]:
        variable = scope.resolve(name.id)
        return (
            set() if variable in self.aliases and id(name) not in self._called_ids else {variable}
        )

    def _add_edges(self, sources: set[Variable], targets: Iterable[Variable]) -> None:
        for target in targets:
            for source in sources:
                self._edges[source].add(target)

    def _connect_scope(self, scope: Scope) -> None:
        if scope.is_class:
            self._add_edges(
                {Variable(scope.number, name) for name in scope.bound_names}, [scope.variable]
            )
        for node in scope.nodes:
            self._connect_node(scope, node)

    def _connect_node(self, scope: Scope, node: ast.AST) -> None:
        for target, value in _bindings(node):
            self._connect_assignment(scope, target, self._read_values(scope, [value]))
        self._add_edges(self._read_values(scope, [_deciding_expression(node)]), [SINK])
        match node:
            case ast.Return(value=value) | ast.Yield(value=value) | ast.YieldFrom(value=value):
                self._add_edges(self._read_values(scope, [value]), [self._result_target(scope)])
            case ast.Expr(value=ast.Call() as call):
                self._add_edges(
                    self._read_values(scope, _arguments(call)), self._effect_targets(scope, call)
                )
            case ast.Call(func=ast.Attribute()):
                values = [*_arguments(node), *_indices(node.func)]
                self._add_edges(
                    self._read_values(scope, values), self._mutated_variables(scope, node.func)
                )
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                sources = self._read_values(scope, definition_expressions(node))
                self._add_edges(sources, [self._result_target(self._scope_of_node[id(node)])])

    def _result_target(self, scope: Scope) -> Variable:
        decides = scope is self.entry or scope.parent is None
        return SINK if decides else scope.variable

    def _connect_assignment(self, scope: Scope, target: ast.expr, sources: set[Variable]) -> None:
        for node in ast.walk(target):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self._add_edges(sources, [scope.resolve(node.id)])
            elif isinstance(node, ast.Attribute | ast.Subscript):
                keys = self._read_values(scope, _indices(node))
                self._add_edges(sources | keys, self._mutated_variables(scope, node))

    def _mutated_variables(self, scope: Scope, node: ast.expr) -> list[Variable]:
        """Return the variable whose object an attribute, item or method call changes."""
        while isinstance(node, ast.Attribute | ast.Subscript):
            node = node.value
        if not isinstance(node, ast.Name):
            return []
        variable = scope.resolve(node.id)
        return [variable, SINK] if scope.is_parameter(variable) else [variable]

    def _effect_targets(self, scope: Scope, call: ast.Call) -> list[Variable]:
        """Return the targets of a call's arguments if its own value is dropped."""
        if isinstance(call.func, ast.Name):
            variable = scope.resolve(call.func.id)
            if variable in self.aliases:
                return []
            without_effect = call.func.id in _PURE_BUILTINS and variable.scope == 0
            return [] if without_effect else [SINK]
        if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
            variable = scope.resolve(call.func.value.id)
            owner = self._scopes[variable.scope]
            is_own = (
                variable.name in owner.bound_names and variable.name not in owner.imported_names
            )
            return [] if is_own else [SINK]
        return [SINK]


def _aliases(scopes: list[Scope], helper: Variable) -> set[Variable]:
    """Return the helper and the variables that a plain `name = helper` binds to it."""
    copies: defaultdict[Variable, set[Variable]] = defaultdict(set)
    for scope in scopes:
        for node in scope.nodes:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
                source = scope.resolve(node.value.id)
                names = [target for target in node.targets if isinstance(target, ast.Name)]
                copies[source].update(scope.resolve(name.id) for name in names)
    return closure([helper], copies.__getitem__)


def _reachable(scopes: list[Scope], entry: Scope) -> list[Scope]:
    """Return the module's own statements, the entry point, and all functions reached from them."""
    defined: defaultdict[Variable, list[Scope]] = defaultdict(list)
    for scope in scopes[1:]:
        defined[scope.variable].append(scope)

    def used_by(item: Scope | Variable) -> Iterable[Scope | Variable]:
        if isinstance(item, Variable):
            return defined[item]
        names = (node for node in item.nodes if isinstance(node, ast.Name))
        return {item.resolve(name.id) for name in names if isinstance(name.ctx, ast.Load)}

    start: list[Scope | Variable] = [scopes[0], entry]
    reached = closure(start, used_by)
    return [scope for scope in scopes if scope in reached]


def _bindings(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """Yield each bound target with its source."""
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from _unpack(target, value)
        case ast.AnnAssign() | ast.AugAssign() | ast.NamedExpr():
            yield node.target, node.value
        case ast.For() | ast.AsyncFor() | ast.comprehension():
            yield node.target, node.iter
        case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
            yield target, value


def _unpack(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield an assignment's parts: `a, b = x, y` binds a to x and b to y."""
    match target, value:
        case (
            ast.Tuple(elts=names) | ast.List(elts=names),
            ast.Tuple(elts=values) | ast.List(elts=values),
        ) if len(names) == len(values) and not _has_star([*names, *values]):
            for pair in zip(names, values, strict=True):
                yield from _unpack(*pair)
        case _:
            yield target, value


def _has_star(items: list[ast.expr]) -> bool:
    return any(isinstance(item, ast.Starred) for item in items)


def _deciding_expression(node: ast.AST) -> ast.expr | None:
    """Return the expression by which a statement decides how the program continues."""
    match node:
        case ast.If(test=value) | ast.While(test=value) | ast.Assert(test=value):
            return value
        case ast.For(iter=value) | ast.AsyncFor(iter=value) | ast.Match(subject=value):
            return value
        case ast.Raise(exc=value) | ast.match_case(guard=value):
            return value
    return None


def _arguments(call: ast.Call) -> list[ast.expr]:
    """Return the expressions of a call's positional and keyword arguments, in order."""
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _indices(node: ast.expr) -> list[ast.expr]:
    """Return the index and key expressions of a target, e.g. `i` and `j` in `a[i].b[j]`."""
    slices = []
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Subscript):
            slices.append(node.slice)
        node = node.value
    return slices


def _called_names(node: ast.AST) -> Iterator[ast.Name]:
    """Yield the plain names among a node's operands: its function, arguments, decorators or
    items.
    """
    if isinstance(node, ast.Call):
        candidates: list[ast.AST] = [node.func, *_arguments(node)]
    elif isinstance(node, Definition):
        candidates = [*definition_expressions(node)]
    elif isinstance(node, ast.List | ast.Tuple | ast.Set):
        candidates = [*node.elts]
    elif isinstance(node, ast.Dict):
        candidates = [*node.values]
    else:
        return
    yield from (name for name in candidates if isinstance(name, ast.Name))
