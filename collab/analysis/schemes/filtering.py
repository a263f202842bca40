"""Strategy filter: the helper's value decides what is done, and is not itself the answer."""

from __future__ import annotations

from collab.analysis.schemes.match import Match, match
from collab.analysis.schemes.program import Program
from collab.analysis.schemes.statements import tests_of


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
    why = f"what '{program.helper}' gives decides what is done and is not itself the answer"
    return match("filter", lines, why) if lines else None
