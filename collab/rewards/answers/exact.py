"""A reward part for a final answer that is known."""

from __future__ import annotations

from typing import Literal

from collab.rewards.answers.final import final_answer
from collab.rewards.answers.normal import same_latex, same_number
from collab.rewards.context import RewardContext

SHOWN = 60


def exact_answer(
    context: RewardContext,
    *,
    field: str = "answer",
    agent: str = "",
    form: Literal["number", "latex"] = "number",
) -> tuple[float, str]:
    r"""The final answer, in `\boxed{}` or behind `####`, is the problem's `field`.

    Args:
        agent: whose artefact; "" for the joint one.
        form: how answers are compared: as numbers, or as MATH compares LaTeX.
    """
    expected = context.field(field)
    answer = final_answer(context.artefacts[agent] if agent else context.joint.text)
    if answer is None:
        return 0.0, r"no final answer: none stands in \boxed{} or behind ####"
    same = same_number if form == "number" else same_latex
    right = same(answer, expected)
    shown = answer if len(answer) <= SHOWN else answer[:SHOWN] + "..."
    return float(right), f"the answer {shown!r} is {'right' if right else 'wrong'}"
