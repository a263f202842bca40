"""Answers to problems of reasoning-gym, scored by the set that they come from."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any

from collab.distribution import install
from collab.errors import RewardError
from collab.rewards.answers.evaluated import refused
from collab.rewards.context import RewardContext

_TAGGED = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)


def score_answer(context: RewardContext, *, agent: str = "") -> tuple[float, str]:
    """The score that the problem's set of reasoning-gym gives the answer, from 0 to 1.

    The answer stands in `<answer>...</answer>`, the last ones of several, or is the whole text.

    Args:
        agent: whose artefact; "" for the joint one.
    """
    text = context.artefacts[agent] if agent else context.joint.text
    tagged = _TAGGED.findall(text)
    answer = (tagged[-1] if tagged else text).strip()
    name = context.field("set")
    if told := refused(name, answer):
        return 0.0, told
    hidden = context.problem.hidden
    entry = {
        "question": context.field("prompt"),
        "answer": hidden.get("answer"),
        "metadata": hidden.get("metadata"),
    }
    scorer = _scorer(name)
    try:
        value = float(scorer(answer, entry))
    except Exception as error:  # whatever a set raises of an answer that it did not expect
        return 0.0, f"the answer cannot be read: {type(error).__name__}"
    value = min(1.0, max(0.0, value)) if math.isfinite(value) else 0.0
    return value, f"reasoning_gym gives {value:.2f}"


@cache
def _scorer(name: str) -> Callable[[str, dict[str, Any]], float]:
    """How a set scores an answer."""
    try:
        import reasoning_gym  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError as error:
        raise RewardError(
            f"the suite reasoning_gym/{name} needs the package reasoning-gym; remedy:"
            f" {install('reasoning-gym')}"
        ) from error
    scorer: Callable[[str, dict[str, Any]], float] = reasoning_gym.get_score_answer_fn(name)
    return scorer
