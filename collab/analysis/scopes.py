"""Resolves names to variables, by Python's rules for modules, functions and classes.

Lambdas and comprehensions count as part of the function around them. Their names therefore shadow
outer names a little too widely. This can hide a use, but never invent one.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T", bound=Hashable)

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Variable:
    """A name together with the scope that binds it (0 is the module)."""

    scope: int
    name: str


@dataclass(eq=False)
class Scope:
    """A module, class or function, and the names that it binds."""

    number: int
    node: ast.Module | Definition
    parent: Scope | None
    nodes: list[ast.AST] = field(default_factory=list)
    """The nodes evaluated in this scope, in no particular order."""
    bound_names: set[str] = field(default_factory=set)
    global_names: set[str] = field(default_factory=set)
    nonlocal_names: set[str] = field(default_factory=set)
    parameters: set[str] = field(default_factory=set)
    imported_names: set[str] = field(default_factory=set)

    @property
    def is_class(self) -> bool:
        return isinstance(self.node, ast.ClassDef)

    def resolve(self, name: str) -> Variable:
        """Return the variable that `name` means here. Unbound names belong to the module."""
        scope: Scope | None = self
        while scope is not None and name not in scope.global_names:
            is_local = name in scope.bound_names and name not in scope.nonlocal_names
            if is_local and (scope is self or not scope.is_class):
                return Variable(scope.number, name)
            scope = scope.parent
        return Variable(0, name)

    def is_parameter(self, variable: Variable) -> bool:
        """Return True if the variable is a parameter of this function or of an enclosing one."""
        scope: Scope | None = self
        while scope is not None:
            if scope.number == variable.scope:
                return variable.name in scope.parameters
            scope = scope.parent
        return False

    @property
    def variable(self) -> Variable:
        """Variable that this function or class is bound to, or its class's variable for a
        method."""
        assert self.parent is not None
        assert not isinstance(self.node, ast.Module)
        if self.parent.is_class:
            return self.parent.variable
        return self.parent.resolve(self.node.name)


def closure(start: Iterable[T], successors: Callable[[T], Iterable[T]]) -> set[T]:
    """Return all items that can be reached from `start` by `successors`, including `start`."""
    reached = set(start)
    pending = [*reached]
    while pending:
        new = {*successors(pending.pop())} - reached
        reached |= new
        pending += new
    return reached


def scopes_of(tree: ast.Module) -> list[Scope]:
    """Return all scopes of a module, the module's own first and outer ones before inner ones."""
    module = Scope(0, tree, None)
    scopes = [module]
    for scope in scopes:
        for node in _evaluated_nodes(scope.node):
            scope.nodes.append(node)
            _bind_names(scope, node)
            if isinstance(node, Definition):
                scopes.append(Scope(len(scopes), node, scope))
    return scopes


def _evaluated_nodes(owner: ast.Module | Definition) -> Iterator[ast.AST]:
    """Yield the nodes that run in a scope, without bodies of definitions."""
    pending: list[ast.AST] = list(owner.body)
    if isinstance(owner, Function):
        pending.extend(_parameters(owner.args))
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, Definition):
            pending.extend(definition_expressions(node))
        else:
            pending.extend(ast.iter_child_nodes(node))


def definition_expressions(node: Definition) -> list[ast.expr]:
    """Return the expressions of a definition that run when it is defined, not when it is called."""
    if isinstance(node, ast.ClassDef):
        return [*node.decorator_list, *node.bases, *(k.value for k in node.keywords)]
    defaults = [default for default in node.args.kw_defaults if default is not None]
    return [*node.decorator_list, *node.args.defaults, *defaults]


def _parameters(arguments: ast.arguments) -> list[ast.arg]:
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return [*named, *(a for a in (arguments.vararg, arguments.kwarg) if a is not None)]


def _bind_names(scope: Scope, node: ast.AST) -> None:
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            scope.bound_names.add(name)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            scope.bound_names.add(name)
        case ast.arg(arg=name):
            scope.bound_names.add(name)
            scope.parameters.add(name)
        case ast.alias(name=name, asname=asname):
            scope.bound_names.add(asname or name.partition(".")[0])
            scope.imported_names.add(asname or name.partition(".")[0])
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
            scope.bound_names.add(name)
        case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            scope.bound_names.add(name)
        case ast.Global(names=names):
            scope.global_names.update(names)
        case ast.Nonlocal(names=names):
            scope.nonlocal_names.update(names)
