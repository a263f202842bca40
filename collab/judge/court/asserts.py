"""Turning a test's asserts into counted checks, on the syntax tree.

Each `assert` becomes a call of the referee, which evaluates, counts and goes on:

    assert f(x) == y    →    try: __referee__.equal(0, f(x), y)
                             except Exception as e: __referee__.raised(0, e)

Below a `try` with handlers Python's own meaning is kept: what the expression raises goes to the
handlers, and a false assert raises AssertionError where a handler names it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import Any

REFEREE = "__referee__"
_ERROR = "__referee_error__"
_BRANCHES = (ast.If, ast.Try, ast.TryStar, ast.Match)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


class BadTest(Exception):
    """A test that cannot be run as one: our trouble, never the program's."""


@dataclass(frozen=True)
class Assertion:
    """One assert statement of a test."""

    line: int
    source: str
    conditional: bool
    """It need not be reached: below if, try or match, or in another function than check."""
    message: str | None
    """The assert's message where it is a plain string."""


@lru_cache(maxsize=64)
def instrument(test: str, entry_point: str) -> tuple[CodeType, tuple[Assertion, ...]]:
    """The code of `test` with counted asserts. Raises BadTest."""
    try:
        tree = ast.parse(test, "test.py")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadTest(f"the test does not parse: {type(error).__name__}: {error}") from error
    if not any(isinstance(n, ast.FunctionDef) and n.name == "check" for n in tree.body):
        raise BadTest("the test defines no function `check(candidate)`")
    counter = _Counter(test, {"candidate", entry_point})
    tree = ast.fix_missing_locations(counter.visit(tree))
    return compile(tree, "test.py", "exec", dont_inherit=True), tuple(counter.assertions)


class _Counter(ast.NodeTransformer):
    def __init__(self, test: str, candidates: set[str]) -> None:
        self.assertions: list[Assertion] = []
        self._lines = test.splitlines()
        self._candidates = candidates
        self._conditional = False
        self._caught = False
        self._assertion_caught = False
        self._depth = 0

    @contextmanager
    def _within(self, **state: bool | int) -> Iterator[None]:
        before = {name: getattr(self, name) for name in state}
        self.__dict__.update(state)
        yield
        self.__dict__.update(before)

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, _SCOPES):
            own = self._depth == 0 and isinstance(node, ast.FunctionDef) and node.name == "check"
            conditional = self._conditional or not own
            with self._within(
                _depth=self._depth + 1,
                _conditional=conditional,
                _caught=False,
                _assertion_caught=False,
            ):
                return super().visit(node)
        if isinstance(node, _BRANCHES):
            with self._within(_conditional=True):
                return super().visit(node)
        return super().visit(node)

    def visit_Try(self, node: ast.Try) -> ast.AST:
        return self._tried(node)

    def visit_TryStar(self, node: ast.TryStar) -> ast.AST:
        return self._tried(node)

    def _tried(self, node: ast.Try | ast.TryStar) -> ast.AST:
        caught = self._caught or bool(node.handlers)
        named = self._assertion_caught or any(map(_names_assertion, node.handlers))
        with self._within(_caught=caught, _assertion_caught=named):
            node.body = self._all(node.body)
        for handler in node.handlers:
            handler.body = self._all(handler.body)
        node.orelse, node.finalbody = self._all(node.orelse), self._all(node.finalbody)
        return node

    def _all(self, body: list[ast.stmt]) -> list[ast.stmt]:
        return [self.visit(statement) for statement in body]

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        number = len(self.assertions)
        self.assertions.append(self._describe(node))
        call = ast.Expr(self._call(number, node.test))
        if self._caught:
            return ast.copy_location(call, node)
        raised = ast.Expr(_method("raised", ast.Constant(number), ast.Name(_ERROR, ast.Load())))
        handler = ast.ExceptHandler(ast.Name("Exception", ast.Load()), _ERROR, [raised])
        return ast.copy_location(ast.Try([call], [handler], [], []), node)

    def _describe(self, node: ast.Assert) -> Assertion:
        source = " ".join("\n".join(self._lines[node.lineno - 1 : node.end_lineno]).split())
        message = node.msg.value if isinstance(node.msg, ast.Constant) else None
        return Assertion(
            line=node.lineno,
            source=source if len(source) <= 300 else source[:297] + "...",
            conditional=self._conditional,
            message=message if isinstance(message, str) else None,
        )

    def _call(self, number: int, test: ast.expr) -> ast.expr:
        strict = ast.Constant(self._assertion_caught)
        match test:
            case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
                swapped = self._asks(right) and not self._asks(left)
                return _method(
                    "equal", ast.Constant(number), left, right, ast.Constant(swapped), strict
                )
        return _method("true", ast.Constant(number), test, strict)

    def _asks(self, node: ast.expr) -> bool:
        """Whether the expression calls the candidate."""
        names = (n.id for n in ast.walk(node) if isinstance(n, ast.Name))
        return not self._candidates.isdisjoint(names)


def _method(name: str, *arguments: ast.expr) -> ast.Call:
    referee = ast.Name(REFEREE, ast.Load())
    return ast.Call(ast.Attribute(referee, name, ast.Load()), list(arguments), [])


def _names_assertion(handler: ast.ExceptHandler) -> bool:
    names = (n.id for n in ast.walk(handler.type or handler) if isinstance(n, ast.Name))
    return handler.type is not None and "AssertionError" in names
