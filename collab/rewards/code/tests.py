"""Reward parts for the behavior of programs: the hidden tests."""

from __future__ import annotations

from collab.rewards.code.trial import Subject
from collab.rewards.context import Part, RewardContext


async def tests(context: RewardContext) -> Part:
    """The fraction of the hidden tests that pass. If all pass, the task is solved."""
    verdict = await context.verdict()
    counts = f"{verdict.tests.passed} of {verdict.tests.total} tests pass"
    reason = f"{counts}: {verdict.error}" if verdict.error else counts
    return Part(verdict.tests.fraction, reason, solved=verdict.passed)


async def solved(context: RewardContext) -> Part:
    """All hidden tests pass."""
    verdict = await context.verdict()
    reason = "solved" if verdict.passed else "not solved"
    return Part(float(verdict.passed), reason, solved=verdict.passed)


async def part_tests(
    context: RewardContext, agent: str, function: str = "helper_name", test: str = "helper_test"
) -> Part:
    """The fraction of the tests for an agent's own part that its code passes.

    Args:
        agent: the agent whose code is tested, alone.
        function: the problem's field with the name of the agent's function.
        test: the problem's hidden field with that function's tests. The part does not apply to a
            problem without this field.
    """
    if not context.problem.hidden.get(test):
        return Part(0.0, f"the problem has no '{test}'", applies=False)
    verdict = await context.verdict(context.artefacts[agent], subject=Subject(function, test))
    name, passed, total = context.field(function), verdict.tests.passed, verdict.tests.total
    return Part(verdict.tests.fraction, f"{passed} of {total} tests of '{name}' pass")
