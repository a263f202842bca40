"""Rewrites a test's asserts as counted checks, on the syntax tree.

Each `assert` becomes a call of the test runner, which evaluates it, counts it and continues:

    assert f(x) == y    →    try: __referee__.equal(0, f(x), y)
                             except Exception as e: __referee__.raised(0, e)

Below a `try` with handlers, asserts keep Python's meaning. Exceptions of the expression go to the
handlers, and a false assert raises AssertionError if a handler mentions it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import CodeType
from typing import Any

from .classes.expected import compute_expected_first
from .depends import dependent_asserts

RUNNER_NAME = "__referee__"
_ERROR_NAME = "__referee_error__"
_BRANCHES = (ast.If, ast.Try, ast.TryStar, ast.Match)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_BLOCK_FIELDS = ("body", "handlers", "orelse", "finalbody", "cases")
"""Fields of a statement that hold statements. No expression holds an assert."""
_LOAD = ast.Load()


class BadTest(Exception):
    """Raised for a text that cannot be run as a test.

    The sandbox is at fault, never the program.
    """


@dataclass(frozen=True)
class Assertion:
    """One assert statement of a test."""

    line: int
    source: str
    message: str | None
    """Message of the assert if it is a plain string."""
    in_other_function: bool
    """True if it is in another function than check, which might not be called."""
    in_branch: bool
    """True if it is below if, try or match, and might not be reached."""
    in_loop: bool
    """True if it is below a loop."""
    depends_on_program: bool
    """True if it can depend on the candidate. Otherwise it does not count."""
    optional: bool = False
    """True if a correct program may skip it: it is always false, such as `assert False`, or it
    replaces another assert that failed.
    """

    @property
    def required(self) -> bool:
        """True if every test run that finishes must have reached the assert."""
        return not (self.in_other_function or self.in_branch)

    @property
    def repeats(self) -> bool:
        """True if the syntax tree does not determine how often the assert is evaluated."""
        return self.in_other_function or self.in_loop


@dataclass(frozen=True)
class CountedTest:
    code: CodeType
    assertions: tuple[Assertion, ...]


def instrument(test: str, entry_point: str, prelude: str = "") -> CountedTest:
    """Add a counter to each assert of `test`. Return the new test and its asserts.

    Raises:
        BadTest: `test` cannot be run as a test.
    """
    try:
        tree = ast.parse(test, "test.py")
        return _instrument(test, tree, entry_point, prelude)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadTest(f"the test does not parse: {type(error).__name__}: {error}") from error


def _instrument(test: str, tree: ast.Module, entry_point: str, prelude: str) -> CountedTest:
    checks = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "check"]
    if not checks:
        raise BadTest("the test defines no function `check(candidate)`")
    candidates = {entry_point, *(check.args.args[0].arg for check in checks if check.args.args)}
    if any(isinstance(node, ast.ClassDef) and node.name == entry_point for node in tree.body):
        tree = compute_expected_first(tree, candidates)
    counter = _Counter(test, candidates, _asserts_on_program(tree, candidates, prelude))
    code = compile(counter.visit(tree), "test.py", "exec", dont_inherit=True)
    return CountedTest(code, tuple(counter.assertions))


def _asserts_on_program(
    tree: ast.Module, candidates: set[str], prelude: str
) -> frozenset[ast.Assert]:
    """Return the asserts that can depend on a candidate."""
    statements = list(_statements(tree))
    asserts = [node for node in statements if isinstance(node, ast.Assert)]
    calling = frozenset(node for node in asserts if _calls_candidate(node.test, candidates))
    straight = not any(isinstance(node, _BRANCHES) for node in statements)
    if all(n in calling or (straight and isinstance(n.test, ast.Constant)) for n in asserts):
        return calling
    trees: list[ast.AST] = [tree]
    with suppress(SyntaxError, ValueError):
        trees.append(ast.parse(prelude, "prelude.py"))
    return calling | dependent_asserts(trees, candidates)


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements below `node`, at every depth."""
    for block in _BLOCK_FIELDS:
        statements = getattr(node, block, None)
        for below in statements if isinstance(statements, list) else ():
            yield below
            yield from _statements(below)


def _calls_candidate(node: ast.expr, candidates: set[str]) -> bool:
    """Return True if the expression itself calls a candidate."""
    calls = (n.func for n in ast.walk(node) if isinstance(n, ast.Call))
    return any(isinstance(function, ast.Name) and function.id in candidates for function in calls)


class _Counter(ast.NodeTransformer):
    def __init__(self, test: str, candidates: set[str], on_program: frozenset[ast.Assert]) -> None:
        self.assertions: list[Assertion] = []
        self._lines = re.split(r"\r\n?|\n", test)
        self._candidates, self._on_program = candidates, on_program
        self._in_other_function = self._in_branch = self._in_loop = False
        self._is_caught = self._catches_assertions = self._is_alternative = False
        self._depth = 0

    @contextmanager
    def _within(self, **state: bool | int) -> Iterator[None]:
        before = {name: getattr(self, name) for name in state}
        self.__dict__.update(state)
        yield
        self.__dict__.update(before)

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, _SCOPES):
            is_check = (
                self._depth == 0 and isinstance(node, ast.FunctionDef) and node.name == "check"
            )
            with self._within(
                _depth=self._depth + 1,
                _in_other_function=not is_check,
                _in_branch=False,
                _in_loop=False,
                _is_caught=False,
                _catches_assertions=False,
                _is_alternative=False,
            ):
                return super().visit(node)
        if isinstance(node, _BRANCHES):
            with self._within(_in_branch=True):
                return super().visit(node)
        if isinstance(node, _LOOPS):
            with self._within(_in_loop=True):
                return super().visit(node)
        return super().visit(node)

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for block in _BLOCK_FIELDS:
            statements = getattr(node, block, None)
            if isinstance(statements, list):
                setattr(node, block, self._visit_all(statements))
        return node

    def visit_Try(self, node: ast.Try | ast.TryStar) -> ast.AST:
        caught = self._is_caught or bool(node.handlers)
        instead = self._is_alternative or any(map(_names_assertion, node.handlers))
        named = self._catches_assertions or any(map(_names_assertion, node.handlers))
        with self._within(_is_caught=caught, _catches_assertions=named, _is_alternative=instead):
            node.body = self._visit_all(node.body)
        with self._within(_is_alternative=instead):
            for handler in node.handlers:
                handler.body = self._visit_all(handler.body)
        node.orelse, node.finalbody = self._visit_all(node.orelse), self._visit_all(node.finalbody)
        return node

    visit_TryStar = visit_Try

    def _visit_all(self, body: list[Any]) -> list[Any]:
        return [self.visit(statement) for statement in body]

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        number = len(self.assertions)
        self.assertions.append(self._describe(node))
        counted: ast.stmt = ast.Expr(self._check_call(number, node.test))
        if not self._is_caught:
            raised = ast.Expr(
                _runner_call("raised", ast.Constant(number), ast.Name(_ERROR_NAME, _LOAD))
            )
            handler = ast.ExceptHandler(ast.Name("Exception", _LOAD), _ERROR_NAME, [raised])
            counted = ast.Try([counted], [handler], [], [])
        return ast.fix_missing_locations(ast.copy_location(counted, node))

    def _describe(self, node: ast.Assert) -> Assertion:
        source = " ".join("\n".join(self._lines[node.lineno - 1 : node.end_lineno]).split())
        message = node.msg.value if isinstance(node.msg, ast.Constant) else None
        return Assertion(
            line=node.lineno,
            source=source if len(source) <= 300 else source[:297] + "...",
            message=message if isinstance(message, str) else None,
            in_other_function=self._in_other_function,
            in_branch=self._in_branch,
            in_loop=self._in_loop,
            depends_on_program=node in self._on_program,
            optional=self._is_alternative
            or (isinstance(node.test, ast.Constant) and not node.test.value),
        )

    def _check_call(self, number: int, test: ast.expr) -> ast.expr:
        strict = ast.Constant(self._catches_assertions)
        match test:
            case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
                swapped = ast.Constant(
                    not self._mentions_candidate(left) and self._mentions_candidate(right)
                )
                return _runner_call("equal", ast.Constant(number), left, right, swapped, strict)
        return _runner_call("true", ast.Constant(number), test, strict)

    def _mentions_candidate(self, node: ast.expr) -> bool:
        names = (n.id for n in ast.walk(node) if isinstance(n, ast.Name))
        return not self._candidates.isdisjoint(names)


def _runner_call(name: str, *arguments: ast.expr) -> ast.Call:
    method = ast.Attribute(ast.Name(RUNNER_NAME, _LOAD), name, _LOAD)
    return ast.Call(method, list(arguments), [])


def _names_assertion(handler: ast.ExceptHandler) -> bool:
    names = (n.id for n in ast.walk(handler.type or handler) if isinstance(n, ast.Name))
    return handler.type is not None and "AssertionError" in names
