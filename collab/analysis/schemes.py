"""Cooperation schemes: classifies how a program's entry point uses its helper."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from collab.analysis.dead_code import block_exits, prune
from collab.analysis.flow import Flow
from collab.analysis.origins import (
    MAX_STEPS,
    Program,
    TooMuchWork,
    bound_in,
    gathered,
    gathered_in,
    given_back,
    is_own_work,
    tests_of,
)
from collab.analysis.scopes import Function, Scope, arguments, assignment, evaluated, scopes_of
from collab.analysis.usage import entry_scope, only_forwards
from collab.syntax import parse

SCHEMES = (
    "redefined",
    "unused",
    "ignored",
    "fallback",
    "filter",
    "coordinator",
    "decorator",
    "wrapper",
)
"""Names of the schemes. If several match, the first one counts."""


@dataclass(frozen=True)
class Match:
    name: str
    lines: tuple[int, ...]
    """Lines that call the helper or use its value, 1-based."""
    why: str


def match(name: str, lines: set[int], why: str) -> Match:
    return Match(name, tuple(sorted(lines)), why)


_FOR_EACH = frozenset({"map", "starmap", "reduce", "accumulate"})
"""Functions that call their first argument repeatedly."""

Parts = Sequence[ast.AST]


def coordinator(program: Program) -> Match | None:
    """Match calls in a loop that collects values, or several calls whose values are combined."""
    split = {line for scope in program.reachable for line in _split(program, scope)}
    met = {line for scope in program.reachable for line in _met(program, scope)}
    if split:
        why = f"calls '{program.helper}' for each piece of the work and collects the values"
        return match("coordinator", split | met, why)
    why = f"combines the values of several calls of '{program.helper}'"
    return match("coordinator", met, why) if met else None


def repeated_calls(program: Program) -> set[ast.Name]:
    """Return the positions at which the helper is called repeatedly."""
    return {
        name
        for scope in program.reachable
        for node in scope.nodes
        for name in program.calls_in(scope, _repeated(node))
    }


def _split(program: Program, scope: Scope) -> Iterator[int]:
    for node in scope.nodes:
        calls = program.calls_in(scope, _repeated(node))
        lines = _gathering(program, scope, node) if calls else set()
        if lines:
            yield from lines
            yield from (name.lineno for name in calls)
    if scope is not program.entry:
        yield from _gathering_outside(program, scope)


def _repeated(node: ast.AST) -> Parts:
    """Return the parts of a node that may run more than once."""
    match node:
        case ast.For(body=body) | ast.AsyncFor(body=body):
            return body
        case ast.While(test=test, body=body):
            return [test, *body]
        case ast.ListComp(elt=elt) | ast.SetComp(elt=elt) | ast.GeneratorExp(elt=elt):
            return [elt, *_inner(node.generators)]
        case ast.DictComp(key=key, value=value):
            return [key, value, *_inner(node.generators)]
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            keys = [keyword.value for keyword in node.keywords if keyword.arg == "key"]
            return node.args[:1] if name in _FOR_EACH else keys
    return []


def _inner(generators: list[ast.comprehension]) -> Iterator[ast.expr]:
    for position, generator in enumerate(generators):
        yield from generator.ifs
        if position:
            yield generator.iter


def _gathering(program: Program, scope: Scope, node: ast.AST) -> set[int]:
    """Return the lines that add a value of the helper to values from other calls."""
    match node:
        case ast.For(body=body) | ast.AsyncFor(body=body) | ast.While(body=body):
            inside = list(evaluated(body))
            lines = {line for part in inside for line in _added(program, scope, part)}
            return lines | _carried(program, scope, inside)
        case ast.Call():
            return program.marks(scope, *_repeated(node))
    tests = [test for part in ast.walk(node) for test in tests_of(part)]
    kept = [part for part in _repeated(node) if part not in tests and program.of(scope, part)]
    return program.marks(scope, *kept)


def _added(program: Program, scope: Scope, node: ast.AST) -> set[int]:
    """Return the lines of `total += v`, `out.append(v)`, `found[k] = v`, `yield v`."""
    addition = gathered(node)
    yielded = given_back([node] if isinstance(node, ast.Yield | ast.YieldFrom) else [])
    values = addition[1] if addition else [*yielded]
    return program.marks(scope, *values) if program.of(scope, *values) else set()


def _carried(program: Program, scope: Scope, inside: Sequence[ast.AST]) -> set[int]:
    """Return the lines that assign the helper's value to a variable from outside the loop."""
    carried = program.assigned_beyond(scope, inside)
    return {
        line
        for node in inside
        for targets, value in [assignment(node)]
        if carried & bound_in(targets) and program.of(scope, value)
        for line in program.marks(scope, value)
    }


def _gathering_outside(program: Program, scope: Scope) -> Iterator[int]:
    """Yield the lines on which a function of the program adds to an outer variable."""
    for node in scope.nodes:
        owners = {scope.resolve(name).scope for name in gathered_in(node)}
        if owners - {scope.number}:
            yield from _added(program, scope, node)


def _met(program: Program, scope: Scope) -> Iterator[int]:
    """Yield the lines of expressions, except tests, that combine values of different calls."""
    tests = {id(part) for node in scope.nodes for t in tests_of(node) for part in ast.walk(t)}
    for node in scope.nodes:
        if id(node) in tests:
            continue
        operands = _operands(node)
        origins = [calls for part in operands if (calls := program.of(scope, part))]
        if len(origins) > 1 and len(frozenset().union(*origins)) > 1:
            yield from program.marks(scope, *operands)
    yield from _added_in_turn(program, scope)


def _operands(node: ast.AST) -> list[ast.expr]:
    """Return the expressions whose values a node combines."""
    match node:
        case ast.BinOp(left=left, right=right):
            operands = [left, right]
        case ast.AugAssign(target=target, value=value):
            operands = [ast.copy_location(_loaded(target), target), value]
        case ast.Compare(left=left, comparators=others):
            operands = [left, *others]
        case ast.BoolOp(values=values) | ast.JoinedStr(values=values) | ast.Dict(values=values):
            operands = values
        case ast.Tuple(elts=values) | ast.List(elts=values) | ast.Set(elts=values):
            operands = values
        case ast.Call(func=ast.Attribute(value=value)):
            operands = [value, *arguments(node)]
        case ast.Call():
            operands = arguments(node)
        case _:
            operands = []
    return operands


def _loaded(target: ast.expr) -> ast.expr:
    """Return an assignment's target as an expression that reads it."""
    return ast.Name(target.id, ast.Load()) if isinstance(target, ast.Name) else target


def _added_in_turn(program: Program, scope: Scope) -> set[int]:
    """Return the lines of statements that add values of different calls to the same variable."""
    origins: dict[str, frozenset[str]] = {}
    lines: dict[str, set[int]] = {}
    for node in scope.nodes:
        _, values = gathered(node) or (None, [])
        for name in gathered_in(node):
            origins[name] = origins.get(name, frozenset()) | program.of(scope, *values)
            lines.setdefault(name, set()).update(program.marks(scope, *values))
    return {line for name in lines if len(origins[name]) > 1 for line in lines[name]}


Statements = Sequence[ast.stmt]


def fallback(program: Program) -> Match | None:
    lines: set[int] = set()
    reasons: list[str] = []
    for scope in program.reachable:
        for node in scope.nodes:
            for places, why in (*_guarded(program, scope, node), *_checked(program, scope, node)):
                lines |= places
                reasons.append(why)
    return match("fallback", lines, reasons[0]) if lines else None


Reasons = Iterator[tuple[set[int], str]]


def _guarded(program: Program, scope: Scope, node: ast.AST) -> Reasons:
    """Match calls whose exceptions lead to an answer without the helper."""
    if not isinstance(node, ast.Try | ast.With):
        return
    handlers = _handlers(node)
    calls = program.calls_in(scope, node.body)
    if calls and any(_answers_without(program, scope, node, handler) for handler in handlers):
        yield (
            {name.lineno for name in calls},
            f"calls '{program.helper}' and answers without it if it raises an exception",
        )


def _handlers(node: ast.Try | ast.With) -> list[list[ast.stmt]]:
    if isinstance(node, ast.Try):
        return [handler.body for handler in node.handlers]
    suppresses = any(
        isinstance(name, ast.Name | ast.Attribute)
        and (name.id if isinstance(name, ast.Name) else name.attr) == "suppress"
        for item in node.items
        for name in ast.walk(item.context_expr)
    )
    return [[]] if suppresses else []


def _answers_without(
    program: Program, scope: Scope, node: ast.stmt, handler: list[ast.stmt]
) -> bool:
    if program.calls_in(scope, handler):
        return False
    nodes = list(evaluated(handler))
    if any(True for _ in given_back(nodes)):
        return True
    changed = bound_in(handler) | {name for node in nodes for name in gathered_in(node)}
    if any(program.holds(scope.resolve(name)) for name in changed):
        return True
    return not block_exits(handler) and _answers_itself(program, scope, _behind(scope, node))


def _checked(program: Program, scope: Scope, node: ast.AST) -> Reasons:
    """Match checks of a value that would be the answer, with another computation if they fail."""
    for test, branches in _checks(scope, node):
        lines = _doubts(program, scope, test)
        if lines and any(_answers_itself(program, scope, branch) for branch in branches):
            yield lines, f"checks the value of '{program.helper}', else computes the answer itself"


def _checks(scope: Scope, node: ast.AST) -> Iterator[tuple[ast.expr, list[Statements]]]:
    match node:
        case ast.If(test=test, body=body, orelse=orelse):
            behind = _behind(scope, node) if block_exits(body) and not orelse else []
            yield test, [body, orelse, behind]
        case ast.IfExp(test=test, body=chosen, orelse=other):
            yield test, [_as_answer(chosen), _as_answer(other)]
        case ast.BoolOp(op=ast.Or(), values=[*checked, last]) if not _is_truth(last):
            for test in checked:
                yield test, [_as_answer(last)]


def _doubts(program: Program, scope: Scope, test: ast.expr) -> set[int]:
    """Return the lines of a test of the function's result, or of the helper's existence."""
    if program.of(scope, test) & program.answers(scope):
        return program.marks(scope, test)
    return program.mentions(scope, test) if program.answers(scope) else set()


def _answers_itself(program: Program, scope: Scope, statements: Statements) -> bool:
    """Return True if statements compute an answer without the helper."""
    nodes = list(evaluated(statements))
    results = _own_results(program, scope, nodes)
    for value in given_back(nodes):
        if isinstance(value, ast.Name) and value.id in results:
            return True
        if not program.of(scope, value) and is_own_work(scope, value):
            return True
    return any(program.holds(scope.resolve(name)) for name in results)


def _own_results(program: Program, scope: Scope, nodes: Sequence[ast.AST]) -> set[str]:
    """Return the variables that hold results of `nodes` without the helper."""
    assigned = [n for n in nodes if isinstance(n, ast.Assign) and not program.of(scope, n.value)]
    computed = [node for node in assigned if is_own_work(scope, node.value)]
    fresh = bound_in(assigned)
    updated = {
        name
        for node in nodes
        for name in gathered_in(node)
        if name in fresh or not program.holds(scope.resolve(name))
    }
    return bound_in(computed) | updated


def _behind(scope: Scope, node: ast.stmt) -> list[ast.stmt]:
    """Return the function's statements below `node`."""
    end = node.end_lineno or node.lineno
    return [n for n in scope.nodes if isinstance(n, ast.stmt) and n.lineno > end]


def _is_truth(value: ast.expr) -> bool:
    """Return True if the `or` before `value` joins conditions, or False if it supplies a missing
    value."""
    return isinstance(value, ast.Compare) or (
        isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.Not)
    )


def _as_answer(value: ast.expr) -> Statements:
    return [ast.copy_location(ast.Return(value=value), value)]


def strategy_filter(program: Program) -> Match | None:
    answers = program.answers(program.entry)
    lines = {
        line
        for scope in program.reachable
        for node in scope.nodes
        for test in tests_of(node)
        if (deciding := program.of(scope, test)) and not deciding & answers
        for line in program.marks(scope, test)
    }
    why = f"the value of '{program.helper}' decides what happens, but is not the answer itself"
    return match("filter", lines, why) if lines else None


def decorator(program: Program) -> Match | None:
    """Match a call that is always made, with guards for edge cases or work on its value."""
    straight = set(program.calls) - repeated_calls(program)
    answers = _answers(program)
    if not straight or not answers:
        return None
    guards = _guards(program, program.entry)
    if not guards and only_forwards(program.scopes, program.entry, program.aliases):
        return None
    lines = {name.lineno for name in straight} | answers
    does = f"answers itself on line {min(guards)}" if guards else "works on the value"
    return match("decorator", lines, f"'{program.helper}' does the core work, the caller {does}")


def wrapper(program: Program) -> Match | None:
    """Match a caller that only forwards."""
    if not only_forwards(program.scopes, program.entry, program.aliases):
        return None
    lines = {name.lineno for name in program.calls} | _answers(program)
    return match("wrapper", lines, f"returns the value of '{program.helper}' unchanged")


def _answers(program: Program) -> set[int]:
    """Return the lines on which the entry point returns a value of the helper."""
    entry = program.entry
    values = [value for value in given_back(entry.nodes) if program.of(entry, value)]
    return program.marks(entry, *values)


def _guards(program: Program, scope: Scope) -> set[int]:
    """Return the lines on which the function ends without the helper, outside of handlers."""
    handlers = [node for node in scope.nodes if isinstance(node, ast.ExceptHandler)]
    caught = {id(node) for node in evaluated(handlers)}
    unaided = {id(value) for value in given_back(scope.nodes) if not program.of(scope, value)}
    return {
        node.lineno
        for node in scope.nodes
        if isinstance(node, ast.Raise | ast.Assert)
        or (isinstance(node, ast.Return) and id(node.value) in unaided)
        if id(node) not in caught
    }


MAX_CHARACTERS = 40_000
"""Length limit of a program, because the rules compare its statements with each other."""

_RULES: tuple[Callable[[Program], Match | None], ...] = (
    fallback,
    strategy_filter,
    coordinator,
    decorator,
    wrapper,
)

_Placed = ast.stmt | ast.expr | ast.arg | ast.alias | ast.excepthandler | ast.pattern
"""The syntax that can bind a name."""


@dataclass(frozen=True)
class Classification:
    """Every scheme that a program shows, in order of precedence."""

    matches: tuple[Match, ...] = ()
    reason: str = ""
    """Reason why there is no scheme."""

    @property
    def scheme(self) -> str | None:
        return self.matches[0].name if self.matches else None

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(match.name for match in self.matches)


def classify(
    program: str,
    entry_point: str,
    helper: str = "aux",
    helper_lines: tuple[int, int] | None = None,
) -> Classification:
    """Classify how the function `entry_point` of a joint program uses the function `helper`.

    Args:
        helper_lines: first and last line of the part that the helper's author wrote. Without them,
            the first definition of `helper` is its author's; any other one counts as the caller's.
    """
    if len(program) > MAX_CHARACTERS:
        return Classification(reason=f"the program has more than {MAX_CHARACTERS:,} characters")
    try:
        tree = parse(program)
    except SyntaxError as error:
        return Classification(reason=f"the program does not parse: {error.msg}")
    scopes = scopes_of(prune(_without_helper(tree, helper, helper_lines)))
    entry = entry_scope(scopes, entry_point)
    if entry is None:
        return Classification(reason=f"'{entry_point}' is not defined")
    without = _without_cooperation(scopes, entry, helper)
    if without is not None:
        return Classification((without,))
    try:
        flow = Program(scopes, entry, helper)
        matches = tuple(shown for rule in _RULES if (shown := rule(flow)) is not None)
    except TooMuchWork:
        return Classification(
            reason=f"the analysis of the program takes more than {MAX_STEPS:,} steps"
        )
    return Classification(matches or (_otherwise(flow),))


def _without_helper(tree: ast.Module, helper: str, lines: tuple[int, int] | None) -> ast.Module:
    """Return the caller's part of a joint program."""
    if lines is None:
        defined = (n for n in tree.body if isinstance(n, Function) and n.name == helper)
        given = next(defined, None)
        tree.body = [node for node in tree.body if node is not given]
    else:
        first, last = lines
        tree.body = [node for node in tree.body if not first <= node.lineno <= last]
    return tree


def _without_cooperation(scopes: list[Scope], entry: Scope, helper: str) -> Match | None:
    """Return the scheme of a caller that does not use its helper."""
    flow = Flow(scopes, entry, helper)
    redefined = {line for scope in flow.reachable for line in _bindings(scope, helper)}
    if redefined:
        return match("redefined", redefined, f"the caller defines '{helper}' itself")
    calls = {name.lineno for name in flow.calls}
    if not calls:
        assert isinstance(entry.node, Function)
        return match("unused", {entry.node.lineno}, f"'{helper}' is never called")
    if not flow.used:
        return match("ignored", calls, f"the value of '{helper}' is dropped")
    return None


def _bindings(scope: Scope, name: str) -> Iterator[int]:
    """Yield the lines on which a scope binds `name` itself."""
    for node in scope.nodes if name in scope.bound else ():
        if not isinstance(node, _Placed) or (
            isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        ):
            continue
        if name in (getattr(node, key, None) for key in ("id", "arg", "asname", "name")):
            yield node.lineno


def _otherwise(program: Program) -> Match:
    """Classify a program that uses the helper's value but matches no other rule."""
    lines = {name.lineno for name in program.calls}
    return match("decorator", lines, f"uses the value of '{program.helper}' for its answer")
