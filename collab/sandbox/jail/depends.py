"""Finds the asserts of a test that can depend on the candidate.

Names are followed through the whole test, regardless of order and scope. A name depends on the
candidate if a call of it ever creates or changes the name's value, or decides whether this happens.
An assert that depends on none of these, such as `assert True`, says nothing about a program.
"""

from __future__ import annotations

import ast
import builtins
from collections import defaultdict
from collections.abc import Iterable, Iterator

_OPAQUE_NAMES = {"eval", "exec", "globals", "locals", "vars", "compile"}
"""Names through which a test may reach the candidate without a trace in the syntax tree."""
_INSPECTING_FUNCTIONS = {"callable", "isinstance", "hasattr", "type", "id", "repr", "str", "bool"}
_LABEL_ATTRIBUTES = {"__name__", "__qualname__", "__doc__", "__module__"}
_CALLBACK_PARAMETERS = "<parameters of functions that are passed on>"
_JUMPS = (ast.Break, ast.Continue, ast.Return)

Names = frozenset[str]
_NO_NAMES: Names = frozenset()


def dependent_asserts(trees: Iterable[ast.AST], candidates: set[str]) -> frozenset[ast.Assert]:
    """Return the asserts within `trees` that can depend on a function with a name in
    `candidates`."""
    trees = list(trees)
    flow = _Flow(candidates, dict(pair for tree in trees for pair in _defined_functions(tree)))
    for tree in trees:
        flow.visit(tree)
    tainted = flow.dependent_names()
    return frozenset(node for node, names in flow.asserts.items() if not names.isdisjoint(tainted))


class _Flow(ast.NodeVisitor):
    """Collects, for every name, the names that it flows into."""

    def __init__(self, candidates: set[str], functions: dict[str, set[str]]) -> None:
        self.asserts: dict[ast.Assert, Names] = {}
        self._candidates, self._functions = candidates, functions
        self._successors: dict[str, set[str]] = defaultdict(set)
        self._inspected: set[ast.AST] = set()
        self._deciding = _NO_NAMES
        """Names that decide whether, or how often, the current node is run."""
        self._guarding = _NO_NAMES
        """Names that decide whether the current node is run at all."""

    def dependent_names(self) -> set[str]:
        """Return every name that depends on a candidate."""
        open_ = [*self._candidates, *_OPAQUE_NAMES]
        names = set(open_)
        while open_:
            fresh = self._successors[open_.pop()] - names
            names |= fresh
            open_ += fresh
        return names

    def visit(self, node: ast.AST) -> None:
        """Collect the flow of names in `node`, then in the nodes below it."""
        self._inspected.update(_inspected_names(node, self._candidates))
        if isinstance(node, ast.Assert):
            self.asserts[node] = self._mentioned_names(node.test) | self._guarding
        self._collect(node)
        deciding, guarding = self._deciding_names(node)
        before = self._deciding, self._guarding
        self._deciding |= deciding
        self._guarding |= guarding
        self.generic_visit(node)
        self._deciding, self._guarding = before

    def _collect(self, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                self._link_assignment(value, *targets)
            case ast.Call():
                self._collect_call(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                self._collect_function(node)
            case ast.ClassDef(name=name):
                self._link(self._mentioned_names(node), {name})
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                self._link(self._deciding, {name})
            case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                self._link(self._deciding, {name})
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                self._link_assignment(node.iter, node.target)
            case ast.AugAssign() | ast.NamedExpr() | ast.AnnAssign(value=ast.expr()):
                self._link_assignment(node.value or node, node.target)
            case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
                self._link_assignment(value, target)

    def _collect_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        self._link({_CALLBACK_PARAMETERS}, _parameters(node))
        if not isinstance(node, ast.Lambda):
            self._link(self._mentioned_names(node), {node.name})

    def _collect_call(self, node: ast.Call) -> None:
        """Let arguments flow into parameters. A call may also change its arguments."""
        callee = _callee(node)
        if callee in self._candidates:
            return  # its arguments are copies
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        names = self._mentioned_names(node)
        if callee in self._functions:
            self._link(names, self._functions[callee])
        elif not isinstance(node.func, ast.Attribute) and not hasattr(builtins, callee):
            self._link(names, {_CALLBACK_PARAMETERS})
        if any(isinstance(a, ast.Lambda) or _base_name(a) in self._functions for a in arguments):
            self._link(names, {_CALLBACK_PARAMETERS})
        changed = {_base_name(argument) for argument in arguments}
        if isinstance(node.func, ast.Attribute):
            changed.add(_base_name(node.func.value))
        self._link(names | self._deciding, changed)

    def _deciding_names(self, node: ast.AST) -> tuple[Names, Names]:
        """Return the names that decide whether or how often parts of `node` run, and whether they
        run at all."""
        match node:
            case ast.If(test=head) | ast.IfExp(test=head) | ast.Match(subject=head):
                names = self._mentioned_names(head)
                return names, names
            case ast.Try(body=body) | ast.TryStar(body=body):
                names = self._mentioned_names(*body)
                return names, names
            case ast.With() | ast.AsyncWith():
                return self._mentioned_names(node), _NO_NAMES
            case ast.For() | ast.AsyncFor() | ast.While():
                return self._loop_names(node), _NO_NAMES
        return _NO_NAMES, _NO_NAMES

    def _loop_names(self, node: ast.For | ast.AsyncFor | ast.While) -> Names:
        if not any(isinstance(n, _JUMPS) for n in ast.walk(node)):
            return self._mentioned_names(node.test if isinstance(node, ast.While) else node.iter)
        names = self._mentioned_names(node)
        if not isinstance(node, ast.While):
            self._link(names, set(_base_names(node.target)))
        return names

    def _link_assignment(self, value: ast.AST, *targets: ast.expr) -> None:
        names = self._mentioned_names(value) | self._deciding
        for target in targets:
            self._link(names, set(_base_names(target)))

    def _link(self, sources: Iterable[str], targets: set[str] | Names) -> None:
        for source in sources:
            self._successors[source].update(targets)

    def _mentioned_names(self, *nodes: ast.AST) -> Names:
        """Return the names that `nodes` mention, without candidates that are only inspected."""
        names: set[str] = set()
        inspected: set[ast.AST] = set()
        for top in nodes:
            for node in ast.walk(top):
                inspected.update(_inspected_names(node, self._candidates))
                if (
                    isinstance(node, ast.Name)
                    and node not in inspected
                    and node not in self._inspected
                ):
                    names.add(node.id)
        return frozenset(names)


def _inspected_names(node: ast.AST, candidates: set[str]) -> Iterator[ast.Name]:
    """Yield mentions of a candidate directly below `node` that neither call it nor pass it on."""
    operands: list[ast.expr] = []
    match node:
        case ast.Assert(test=test) | ast.UnaryOp(op=ast.Not(), operand=test):
            operands = [test]
        case ast.BoolOp(values=values):
            operands = values
        case ast.Compare(left=left, comparators=comparators):
            operands = [left, *comparators]
        case ast.Attribute(value=value, attr=attr) if attr in _LABEL_ATTRIBUTES:
            operands = [value]
        case ast.Call(func=ast.Name(id=name), args=args) if name in _INSPECTING_FUNCTIONS:
            operands = args
    for operand in operands:
        if isinstance(operand, ast.Name) and operand.id in candidates:
            yield operand


def _defined_functions(tree: ast.AST) -> Iterator[tuple[str, set[str]]]:
    """Yield functions that `tree` defines by name, and their parameters."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name, _parameters(node)
            case ast.Assign(targets=targets, value=ast.Lambda() as value):
                yield from ((_base_name(target), _parameters(value)) for target in targets)


def _callee(node: ast.Call) -> str:
    """Return the name of the function or method that is called, or "" if it has none."""
    match node.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> set[str]:
    arguments = node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    extra = (arguments.vararg, arguments.kwarg)
    return {argument.arg for argument in (*every, *extra) if argument is not None}


def _base_names(target: ast.expr) -> Iterator[str]:
    """Yield the names that an assignment to `target` creates or changes."""
    if isinstance(target, (ast.Tuple, ast.List)):
        for element in target.elts:
            yield from _base_names(element)
    else:
        yield _base_name(target)


def _base_name(node: ast.expr) -> str:
    """Return the name that `node` is, or is reached from, or "" if there is none."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
