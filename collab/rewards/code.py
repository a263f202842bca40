"""Reward parts for programs: structure, syntax, tests."""

from __future__ import annotations

from collab.analysis import returns_value
from collab.rewards.context import Part, RewardContext
from collab.syntax import parse


def defines(context: RewardContext, agent: str, function: str = "") -> tuple[float, str]:
    """The agent defines a function at module level, and the function gives a value back.

    Args:
        function: its name; `entry_point` stands for the problem's, "" for the agent's own name.
    """
    name = function_name(context, agent, function)
    source = context.artefacts[agent]
    if not source.strip():
        return 0.0, f"{agent} wrote no code"
    try:
        returns = returns_value(parse(source), name)
    except SyntaxError as error:
        return 0.0, f"{agent}'s code does not parse: {explain(error)}"
    if returns is None:
        return 0.0, f"{agent} does not define '{name}'"
    if not returns:
        return 0.0, f"'{name}' returns nothing"
    return 1.0, f"'{name}' is defined and returns a value"


def parses(context: RewardContext) -> tuple[float, str]:
    """The joint program parses."""
    try:
        parse(context.joint.text)
    except SyntaxError as error:
        place = context.joint.locate(error.lineno or 0)
        written = f" (line {place[1]} of {place[0]})" if place else ""
        return 0.0, f"the joint program does not parse: {explain(error)}{written}"
    return 1.0, "the joint program parses"


async def tests(context: RewardContext) -> Part:
    """The fraction of the hidden tests that hold; when all do, the task is solved."""
    verdict = await context.verdict()
    counts = f"{verdict.tests.passed} of {verdict.tests.total} tests hold"
    reason = f"{counts}: {verdict.error}" if verdict.error else counts
    return Part(verdict.tests.fraction, reason, solved=verdict.passed)


async def solved(context: RewardContext) -> Part:
    """Every hidden test holds."""
    verdict = await context.verdict()
    told = "solved" if verdict.passed else "not solved"
    return Part(float(verdict.passed), told, solved=verdict.passed)


def function_name(context: RewardContext, agent: str, function: str) -> str:
    if function == "entry_point":
        return context.field("entry_point")
    return function or agent


def explain(error: SyntaxError) -> str:
    """A syntax error on one line, with its place."""
    place = f"line {error.lineno}: " if error.lineno else ""
    return f"{place}{error.msg}"
