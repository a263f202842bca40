"""Reward parts for games: what agents earn by what all of them play."""

from __future__ import annotations

from typing import Any

from collab.errors import RewardError
from collab.rewards.context import RewardContext
from collab.rewards.generic import normal


def utility(
    context: RewardContext, table: dict[str, Any], maximum: float = 1.0
) -> tuple[float, str]:
    """A game's payoff: each agent's artefact is its move, looked up in the agents' order.

    Args:
        table: moves of the first agent, in each those of the second, and so on, down to payoffs.
        maximum: the payoff that counts as 1.
    """
    entry: Any = table
    moves = [normal(context.artefacts[agent]) for agent in context.agents]
    for agent, move in zip(context.agents, moves, strict=True):
        if not isinstance(entry, dict):
            raise RewardError(f"the table of 'utility' has no moves for {agent}")
        options = {normal(str(name)): value for name, value in entry.items()}
        if move not in options:
            return 0.0, f"{agent} plays {move!r:.40}, which is none of: {', '.join(options)}"
        entry = options[move]
    if not isinstance(entry, int | float):
        raise RewardError(f"the table of 'utility' gives no number for {', '.join(moves)}")
    return entry / maximum, f"payoff {entry:g} for {', '.join(moves)}"


def agree(context: RewardContext) -> tuple[float, str]:
    """All agents say the same, to the letter, and say something."""
    said = {text.strip() for text in context.contributions.values()}
    told = "; ".join(f"{name} {text.strip()!r:.40}" for name, text in context.contributions.items())
    return float(len(said) == 1 and "" not in said), told
