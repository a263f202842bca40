"""Reward parts for any team: length, phrases, expected answers, games."""

from __future__ import annotations

import re
from typing import Any, Literal

from collab.errors import RewardError
from collab.rewards.context import RewardContext


def length(
    context: RewardContext,
    *,
    agent: str = "",
    unit: Literal["words", "characters"] = "words",
    minimum: int = 1,
    maximum: int = 256,
    margin: int = 0,
) -> tuple[float, str]:
    """The artefact is between `minimum` and `maximum` units long.

    Args:
        agent: whose artefact; "" for the joint one.
        margin: outside of the bounds the value falls linearly to 0 over this many units.
    """
    text = _artefact(context, agent)
    size = len(text.split()) if unit == "words" else len(text)
    excess = max(minimum - size, size - maximum, 0)
    value = 1.0 if not excess else max(0.0, 1.0 - excess / (margin + 1))
    return value, f"{size} {unit}, wanted {minimum}-{maximum}"


def contains(context: RewardContext, phrases: list[str], agent: str = "") -> tuple[float, str]:
    """The fraction of `phrases` that stand in the artefact, as whole words, in any case."""
    if not phrases:
        raise RewardError("the part 'contains' needs at least one phrase")
    text = _artefact(context, agent)
    found = [p for p in phrases if re.search(rf"(?<!\w){re.escape(p)}(?!\w)", text, re.IGNORECASE)]
    return len(found) / len(phrases), f"{len(found)} of {len(phrases)} phrases"


def equals(context: RewardContext, field: str, agent: str = "") -> tuple[float, str]:
    """The artefact is the problem's `field`, but for case and white space."""
    expected = context.field(field)
    same = _normal(_artefact(context, agent)) == _normal(expected)
    return float(same), f"equals '{field}'" if same else f"differs from '{field}'"


def utility(
    context: RewardContext, table: dict[str, Any], maximum: float = 1.0
) -> tuple[float, str]:
    """A game's payoff: each agent's artefact is its move, looked up in the agents' order.

    Args:
        table: moves of the first agent, in each those of the second, and so on, down to payoffs.
        maximum: the payoff that counts as 1.
    """
    entry: Any = table
    moves = [_normal(context.artefacts[agent]) for agent in context.agents]
    for agent, move in zip(context.agents, moves, strict=True):
        if not isinstance(entry, dict):
            raise RewardError(f"the table of 'utility' has no moves for {agent}")
        options = {_normal(str(name)): value for name, value in entry.items()}
        if move not in options:
            return 0.0, f"{agent} plays {move!r:.40}, which is none of: {', '.join(options)}"
        entry = options[move]
    if not isinstance(entry, int | float):
        raise RewardError(f"the table of 'utility' gives no number for {', '.join(moves)}")
    return entry / maximum, f"payoff {entry:g} for {', '.join(moves)}"


def _artefact(context: RewardContext, agent: str) -> str:
    return context.artefacts[agent] if agent else context.joint.text


def _normal(text: str) -> str:
    return " ".join(text.split()).casefold()
