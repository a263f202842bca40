"""Finds the helper calls that a value derives from. Calls that only decide which value is used do
not count.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import TypeVar

from collab.analysis.flow import Flow
from collab.analysis.scopes import (
    Function,
    Scope,
    Variable,
    arguments,
    assignment,
    closure,
    evaluated,
)

FILTERS = frozenset({"filter", "filterfalse", "takewhile", "dropwhile"})
"""Functions that keep items according to their first argument."""

_COMPREHENSION = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_COMPUTES = ast.Call | ast.BinOp | ast.BoolOp | ast.Compare | ast.Subscript | _COMPREHENSION

_GATHERING = frozenset(
    {"add", "append", "appendleft", "extend", "heappush", "insert", "push", "setdefault", "update"}
)


def tests_of(node: ast.AST) -> list[ast.expr]:
    """Return the expressions that decide what a node does, how often, or what it keeps."""
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
    """Yield the values that `nodes` return or yield."""
    for node in nodes:
        if isinstance(node, ast.Return | ast.Yield | ast.YieldFrom) and node.value is not None:
            yield node.value


def gathered(node: ast.AST) -> tuple[ast.expr, list[ast.expr]] | None:
    """Return the target of a statement that adds values, and the values: `total += x`,
    `out.append(x)`."""
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
    """Return the name of the variable that a statement adds to."""
    addition = gathered(node)
    target = addition[0] if addition else None
    while isinstance(target, ast.Attribute | ast.Subscript):
        target = target.value
    return {target.id} if isinstance(target, ast.Name) else set()


def is_own_work(scope: Scope, expression: ast.expr) -> bool:
    """Return True if an expression computes something from the variables around it."""
    if _is_filler(expression):
        return False
    nodes = list(ast.walk(expression))
    local = (n for n in nodes if isinstance(n, ast.Name) and scope.resolve(n.id).scope)
    return any(isinstance(node, _COMPUTES) for node in nodes) and any(local)


def _is_filler(expression: ast.expr) -> bool:
    """Return True for `[0] * n`, any number of equal constants."""
    match expression:
        case ast.BinOp(left=ast.List(elts=[ast.Constant()]) | ast.Constant(str()), op=ast.Mult()):
            return True
    return False


def bound_in(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the variables assigned in `nodes`, at every depth."""
    return {*bindings_of(evaluated(nodes))}


def bindings_of(nodes: Iterable[ast.AST]) -> Counter[str]:
    """Count the assignments of each variable."""
    stores = (n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    return Counter(stores)


def _indices(target: ast.expr) -> list[ast.expr]:
    return [target.slice] if isinstance(target, ast.Subscript) else []


T = TypeVar("T")

Origins = frozenset[str]
"""Calls identified by their source text: the same call written twice counts once."""

MAX_STEPS = 1_000_000
"""Maximum number of nodes and values to inspect per program. Each call may multiply the work."""

_RETURNED = Variable(-1, "returned")
_CALL = -2
"""Scope number of the variables that represent the value of one call."""


class TooMuchWork(Exception):
    """The program takes more than `MAX_STEPS` steps to analyze."""


class Program(Flow):
    """The scopes that an entry point reaches, and the values that derive from the helper's calls.

    Raises:
        TooMuchWork: on construction and by every method.
    """

    def __init__(self, scopes: list[Scope], entry: Scope, helper: str) -> None:
        self.scopes, self.helper = scopes, helper
        self._steps = 0
        self._callers = _callers(scopes, Variable(0, helper))
        self._functions = {s.variable: s for s in scopes[1:] if isinstance(s.node, Function)}
        self._calls = {
            id(node.func): ast.dump(node)
            for scope in scopes
            for node in scope.nodes
            if isinstance(node, ast.Call)
        }
        self._assigned = {scope.number: bindings_of(scope.nodes) for scope in scopes}
        super().__init__(scopes, entry, helper)
        self._add({_RETURNED}, [entry.variable])
        self._origins: dict[Variable, set[str]] = {}
        self._trace({self._written(name) for name in self.calls})
        self._trace(self._own_calls())

    def of(self, scope: Scope, *expressions: ast.AST | None) -> Origins:
        """Return the calls from which the values of `expressions` derive."""
        calls: set[str] = set()
        pending = [node for node in expressions if node is not None]
        while pending:
            node = pending.pop()
            self._spend(1)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                calls |= self._origins_of(self._read(scope, node))
            pending.extend(_passed_on(node))
        return frozenset(calls)

    def answers(self, scope: Scope) -> Origins:
        """Return the calls from which a function's result derives."""
        return self._origins_of([self._result(scope)])

    def holds(self, variable: Variable) -> bool:
        """Return True if the value of a variable derives from a call of the helper."""
        return variable in self._origins

    def calls_in(self, scope: Scope, nodes: Iterable[ast.AST]) -> list[ast.Name]:
        """Return the helper calls in `nodes`, directly or by a function that calls it."""
        return [
            node
            for node in self._counted(evaluated(nodes))
            if isinstance(node, ast.Name)
            and isinstance(node.ctx, ast.Load)
            and (id(node) in self._called or scope.resolve(node.id) in self._callers)
        ]

    def marks(self, scope: Scope, *nodes: ast.AST | None) -> set[int]:
        """Return the lines on which `nodes` call the helper, or read a value that derives from
        it."""
        given = [node for node in nodes if node is not None]
        looked_at = self._counted(evaluated(given))
        names = (node for node in looked_at if isinstance(node, ast.Name))
        return {name.lineno for name in names if self._origins_of(self._read(scope, name))}

    def assigned_beyond(self, scope: Scope, nodes: Iterable[ast.AST]) -> set[str]:
        """Return the variables assigned both in `nodes` and in the rest of their function."""
        everywhere = self._assigned[scope.number]
        within = bindings_of(nodes).items()
        return {n for n, count in within if everywhere[n] > count or n in scope.parameters}

    def mentions(self, scope: Scope, node: ast.AST) -> set[int]:
        """Return the lines on which `node` names the helper without calling it: `if aux is
        None`."""
        return {
            part.lineno
            for part in self._counted(ast.walk(node))
            if (isinstance(part, ast.Constant) and part.value == self.helper)
            or (isinstance(part, ast.Name) and scope.resolve(part.id) in self.aliases)
            if id(part) not in self._called
        }

    def _trace(self, calls: Iterable[str]) -> None:
        for written in calls:
            for variable in self._counted(self._reached_from([Variable(_CALL, written)])):
                self._origins.setdefault(variable, set()).add(written)

    def _own_calls(self) -> set[str]:
        """Return the calls of the program's own functions that return a value of the helper."""
        return {
            self._calls[id(node.func)]
            for scope in self.reachable
            for node in scope.nodes
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            for variable in [scope.resolve(node.func.id)]
            if variable in self._callers and self.holds(variable)
        }

    def _origins_of(self, variables: Iterable[Variable]) -> Origins:
        calls = [self._origins.get(variable, ()) for variable in variables]
        self._spend(sum(map(len, calls)))
        return frozenset().union(*calls)

    def _counted(self, items: Iterable[T]) -> Iterator[T]:
        for item in items:
            self._spend(1)
            yield item

    def _spend(self, steps: int) -> None:
        self._steps += steps
        if self._steps > MAX_STEPS:
            raise TooMuchWork

    def _written(self, name: ast.expr) -> str:
        """Return the call of a name, or its position if it is passed on to be called."""
        return self._calls.get(id(name)) or f"line {name.lineno}, {name.col_offset}"

    def _read(self, scope: Scope, name: ast.Name) -> set[Variable]:
        if id(name) in self._called:
            return {Variable(_CALL, self._written(name))}
        variables = super()._read(scope, name)
        if variables & self._callers and id(name) in self._calls:
            variables.add(Variable(_CALL, self._written(name)))
        return variables

    def _parts(self, node: ast.AST) -> Iterable[ast.AST]:
        return _passed_on(node)

    def _connect_node(self, scope: Scope, node: ast.AST) -> None:
        super()._connect_node(scope, node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            function = self._functions.get(scope.resolve(node.func.id))
            if function is not None:
                self._hand_over(scope, node, function)

    def _hand_over(self, scope: Scope, call: ast.Call, function: Scope) -> None:
        """Make the arguments of a call flow into the parameters of the program's own function."""
        assert isinstance(function.node, Function)
        declared = function.node.args
        names = [parameter.arg for parameter in (*declared.posonlyargs, *declared.args)]
        given = [*zip(names, call.args, strict=False)]
        given += [(keyword.arg or "", keyword.value) for keyword in call.keywords]
        for name, value in given:
            self._add(self._reads(scope, [value]), [Variable(function.number, name)])

    def _result(self, scope: Scope) -> Variable:
        return _RETURNED if scope is self.entry else super()._result(scope)

    def _mutated(self, scope: Scope, node: ast.expr) -> list[Variable]:
        """Let the entry point's caller see the changes to its parameters."""
        mutated = super()._mutated(scope, node)
        return [*mutated[:1], _RETURNED] if mutated[1:] and scope is self.entry else mutated


def _passed_on(node: ast.AST) -> Iterable[ast.AST]:
    """Yield the parts of an expression that make up its value, without tests and choices."""
    match node:
        case ast.IfExp(body=body, orelse=orelse):
            return [body, orelse]
        case ast.comprehension(target=target, iter=iterable):
            return [target, iterable]
        case ast.Call(func=ast.Name(id=name)) if name in FILTERS:
            return arguments(node)[1:]
        case ast.Call(func=ast.Subscript(value=table)):
            return [table, *arguments(node)]
    return ast.iter_child_nodes(node)


def _callers(scopes: list[Scope], helper: Variable) -> set[Variable]:
    """Return the functions that call the helper, or another function that does."""
    named_by: defaultdict[Variable, set[Variable]] = defaultdict(set)
    for scope in scopes:
        if isinstance(scope.node, Function):
            for name in _names(scope, scope.nodes):
                named_by[name].add(scope.variable)
        for node in scope.nodes:
            targets, value = assignment(node)
            if value is not None and _is_function(value):
                bound = {scope.resolve(t.id) for t in targets if isinstance(t, ast.Name)}
                for name in _names(scope, ast.walk(value)):
                    named_by[name] |= bound
    return closure([helper], named_by.__getitem__) - {helper}


def _is_function(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id == "partial"
    return isinstance(value, ast.Lambda)


def _names(scope: Scope, nodes: Iterable[ast.AST]) -> set[Variable]:
    """Return the variables that `nodes` themselves read."""
    named = (node for node in nodes if isinstance(node, ast.Name))
    return {scope.resolve(name.id) for name in named if isinstance(name.ctx, ast.Load)}
