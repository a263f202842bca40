"""Whether an entry point really uses a helper function, judged on the syntax tree.

A use is a call of the helper's global name, in code that can run and that the entry point can
reach, whose value flows on: into what the entry point returns, into a condition, or into
another call. Names flow by assignment, without regard to order; what a tree cannot tell, a run
with the helper replaced does.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from collab.analysis.dead_code import prune
from collab.analysis.flow import Flow
from collab.analysis.scopes import Function, Scope, scopes_of
from collab.analysis.wrapper import only_forwards
from collab.syntax import parse


@dataclass(frozen=True)
class HelperUse:
    """How an artefact's entry point uses a helper that another agent wrote."""

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
    """How the function `entry_point` of `source` uses the global function `helper`."""
    try:
        tree = parse(source)
    except SyntaxError:
        return HelperUse(reason="the code does not parse")
    redefined = _redefines(scopes_of(tree), helper)  # also in code that seems dead
    scopes = scopes_of(prune(tree))
    entry = entry_scope(scopes, entry_point)
    if entry is None:
        return HelperUse(reason=f"'{entry_point}' is not defined")
    if redefined:
        return HelperUse(reason=f"'{helper}' is defined again beside '{entry_point}'")
    flow = Flow(scopes, entry, helper)
    lines = tuple(sorted({node.lineno for node in flow.calls}))
    if not lines:
        hidden = any(helper in scope.bound for scope in scopes)
        local = f" (a local '{helper}' hides it)" if hidden else ""
        return HelperUse(
            reason=f"'{entry_point}' never calls '{helper}' in code that can run{local}"
        )
    if not flow.used:
        return HelperUse(lines, reason=f"the value of '{helper}' is not used")
    return HelperUse(
        lines,
        used=True,
        wrapper=only_forwards(scopes, entry, flow.aliases),
        reason=f"'{entry_point}' uses the value of '{helper}'",
    )


def entry_scope(scopes: list[Scope], name: str) -> Scope | None:
    named = [
        scope
        for scope in scopes[1:]
        if scope.parent is scopes[0]
        and isinstance(scope.node, Function)
        and scope.node.name == name
    ]
    return max(named, key=_line, default=None)


def _line(scope: Scope) -> int:
    return scope.node.lineno if not isinstance(scope.node, ast.Module) else 0


def _redefines(scopes: list[Scope], helper: str) -> bool:
    module, *inner = scopes
    return helper in module.bound or any(
        helper in scope.bound and helper in scope.outer for scope in inner
    )
