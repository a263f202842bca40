"""The cooperation schemes of a program, judged on its syntax tree; nothing is run."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from collab.analysis.dead_code import prune
from collab.analysis.flow import Flow
from collab.analysis.schemes.coordination import coordinator
from collab.analysis.schemes.fallback import fallback
from collab.analysis.schemes.filtering import strategy_filter
from collab.analysis.schemes.forwarding import decorator, wrapper
from collab.analysis.schemes.match import Match, match
from collab.analysis.schemes.program import MAX_STEPS, Program, TooMuchWork
from collab.analysis.scopes import Function, Scope, scopes_of
from collab.analysis.usage import entry_scope
from collab.syntax import parse

MAX_CHARACTERS = 40_000
"""A longer program is not classified: the rules compare its statements with each other."""

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
    """Every scheme that a program shows, the one that takes precedence first."""

    matches: tuple[Match, ...] = ()
    reason: str = ""
    """Why there is none."""

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
    """How the function `entry_point` of a joint program cooperates with the function `helper`.

    Args:
        helper_lines: the lines, first and last, that the helper's author wrote. Without them the
            first definition of `helper` is its author's; any other one counts as the caller's.
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
        found = Program(scopes, entry, helper)
        matches = tuple(shown for rule in _RULES if (shown := rule(found)) is not None)
    except TooMuchWork:
        return Classification(
            reason=f"the program takes more than {MAX_STEPS:,} steps to look through"
        )
    return Classification(matches or (_otherwise(found),))


def _without_helper(tree: ast.Module, helper: str, lines: tuple[int, int] | None) -> ast.Module:
    """The caller's part of a joint program."""
    if lines is None:
        defined = (n for n in tree.body if isinstance(n, Function) and n.name == helper)
        given = next(defined, None)
        tree.body = [node for node in tree.body if node is not given]
    else:
        first, last = lines
        tree.body = [node for node in tree.body if not first <= node.lineno <= last]
    return tree


def _without_cooperation(scopes: list[Scope], entry: Scope, helper: str) -> Match | None:
    """The scheme of a caller that makes nothing of its helper."""
    flow = Flow(scopes, entry, helper)
    own = {line for scope in flow.reachable for line in _bindings(scope, helper)}
    if own:
        return match("redefined", own, f"the caller defines '{helper}' itself")
    calls = {name.lineno for name in flow.calls}
    if not calls:
        assert isinstance(entry.node, Function)
        return match("unused", {entry.node.lineno}, f"'{helper}' is never called")
    if not flow.used:
        return match("ignored", calls, f"the value of '{helper}' is dropped")
    return None


def _bindings(scope: Scope, name: str) -> Iterator[int]:
    """The lines on which a scope gives `name` a meaning of its own."""
    for node in scope.nodes if name in scope.bound else ():
        if not isinstance(node, _Placed) or (isinstance(node, ast.Name) and _is_read(node)):
            continue
        if name in (getattr(node, key, None) for key in ("id", "arg", "asname", "name")):
            yield node.lineno


def _is_read(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Load)


def _otherwise(program: Program) -> Match:
    """A helper whose value counts, but in none of the ways that have a rule of their own."""
    lines = {name.lineno for name in program.calls}
    return match("decorator", lines, f"what '{program.helper}' gives takes effect on the way")
