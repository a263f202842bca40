"""Findings of static feedback on a team's program."""

import asyncio
from collections.abc import Callable
from typing import Any

from collab.feedback import Outcome
from collab.feedback.static import Static
from collab.recipe.feedback import StaticFeedbackSpec
from collab.records import Feedback

OutcomeOf = Callable[..., Outcome]

AUX = "def aux(x):\n    return x * x"
MAIN = "def sum_of_squares(xs):\n    return sum(aux(x) for x in xs)"


def give_feedback(outcome: Outcome, **settings: Any) -> dict[str, Feedback]:
    async def go() -> dict[str, Feedback]:
        source = Static(StaticFeedbackSpec(**settings))
        try:
            return await source.give_feedback(outcome)
        finally:
            await source.aclose()

    return asyncio.run(go())


def codes(feedback: Feedback) -> list[tuple[str, int | None]]:
    return [(finding.code, finding.line) for finding in feedback.findings]
