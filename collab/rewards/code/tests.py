"""Reward parts for what programs do: the hidden tests."""

from __future__ import annotations

from collab.rewards.context import Part, RewardContext


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
