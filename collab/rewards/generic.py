"""Reward parts for any team: length, phrases, expected answers, words of a list."""

from __future__ import annotations

import re
from typing import Any, Literal

from collab.errors import RewardError
from collab.rewards.context import RewardContext, artifact_of
from collab.rewards.writing.visible import tokens, visible_text


def length(
    context: RewardContext,
    *,
    agent: str = "",
    unit: Literal["words", "characters"] = "words",
    minimum: int = 1,
    maximum: int = 256,
    margin: int = 0,
) -> tuple[float, str]:
    """The artifact is between `minimum` and `maximum` units long. A word has a letter or a digit.

    Args:
        agent: the agent whose artifact is scored, or "" for the joint artifact.
        margin: outside the bounds, the value falls linearly, and is 0 beyond this many units.
    """
    text = artifact_of(context, agent)
    size = len(tokens(text) if unit == "words" else visible_text(text))
    excess = max(minimum - size, size - maximum, 0)
    value = 1.0 if not excess else max(0.0, 1.0 - excess / (margin + 1))
    return value, f"{size} {unit}, wanted {minimum}-{maximum}"


def contains(context: RewardContext, phrases: list[str], agent: str = "") -> tuple[float, str]:
    """The fraction of `phrases` found in the artifact, as whole words, in any case.

    Raises:
        RewardError: `phrases` is empty.
    """
    if not phrases:
        raise RewardError("the part 'contains' needs at least one phrase")
    text = artifact_of(context, agent)
    present = [
        p for p in phrases if re.search(rf"(?<!\w){re.escape(p)}(?!\w)", text, re.IGNORECASE)
    ]
    return len(present) / len(phrases), f"{len(present)} of {len(phrases)} phrases"


def equals(context: RewardContext, field: str, agent: str = "") -> tuple[float, str]:
    """The artifact equals the problem's `field`, ignoring case and whitespace."""
    expected = context.field(field)
    same = normalize(artifact_of(context, agent)) == normalize(expected)
    return float(same), f"equals '{field}'" if same else f"differs from '{field}'"


def one_of(context: RewardContext, field: str, agent: str = "") -> tuple[float, str]:
    """The artifact is one of the words in the problem's `field`, separated by commas.

    The artifact must match exactly. Ignoring case, a second word or a punctuation mark would allow
    more messages than there are words.
    """
    listed = [word.strip() for word in context.field(field).split(",")]
    answer = artifact_of(context, agent).strip()
    return float(answer in listed), f"says {answer!r:.40}, of: {', '.join(listed)}"


def normalize(text: str) -> str:
    """Return the text in lower case, with runs of whitespace as one space."""
    return " ".join(text.split()).casefold()


def utility(
    context: RewardContext, table: dict[str, Any], maximum: float = 1.0
) -> tuple[float, str]:
    """A game's payoff: each agent's artifact is its move, looked up in the team's order.

    Args:
        table: moves of the first agent, each with the moves of the second, and so on, down to
            payoffs.
        maximum: the payoff that counts as 1.

    Raises:
        RewardError: the table has no moves for an agent, or no number for the moves.
    """
    entry: Any = table
    moves = [normalize(context.artifacts[agent]) for agent in context.agents]
    for agent, move in zip(context.agents, moves, strict=True):
        if not isinstance(entry, dict):
            raise RewardError(f"the table of 'utility' has no moves for {agent}")
        options = {normalize(str(name)): value for name, value in entry.items()}
        if move not in options:
            return 0.0, f"{agent} plays {move!r:.40}, which is not one of: {', '.join(options)}"
        entry = options[move]
    if not isinstance(entry, int | float):
        raise RewardError(f"the table of 'utility' gives no number for {', '.join(moves)}")
    return entry / maximum, f"payoff {entry:g} for {', '.join(moves)}"


def agree(context: RewardContext) -> tuple[float, str]:
    """All agents give the same non-empty answer, character for character."""
    answers = {text.strip() for text in context.contributions.values()}
    reason = "; ".join(
        f"{name} {text.strip()!r:.40}" for name, text in context.contributions.items()
    )
    return float(len(answers) == 1 and "" not in answers), reason
