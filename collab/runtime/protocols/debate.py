"""Debate: all agents answer, rebut each other for some rounds, and one answer is chosen.

After Du et al. (arXiv 2305.14325), with an optional moderator (Liang et al., arXiv 2305.19118).
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Literal

from pydantic import Field

from collab.errors import RecipeError
from collab.runtime.turn import Turn

REBUT_TEMPLATE = """\
{% for name, response in others.items() %}Agent {{ name }} answered:
{{ response }}

{% endfor %}Say where the others are wrong or right, and give your own answer in full.
"""


async def debate(
    turn: Turn,
    *,
    rebuttals: Annotated[int, Field(ge=0)] = 1,
    moderator: str | None = None,
    decide: Literal["vote", "join"] = "vote",
) -> None:
    """Debaters answer at the same time, then rebut each other.

    Args:
        rebuttals: rounds in which each debater sees the others' latest answers.
        moderator: an agent that sees all last answers and gives the final one.
        decide: without a moderator, `vote` takes the answer that most debaters gave (the first of
            them in a tie), `join` joins all last answers.

    Raises:
        RecipeError: there are fewer than 2 debaters.
    """
    debaters = [agent for agent in turn.agents if agent != moderator]
    if len(debaters) < 2:
        raise RecipeError(f"protocol 'debate' needs at least 2 debaters, not {len(debaters)}")
    await turn.together(debaters)
    for _ in range(rebuttals):
        await turn.together(debaters, "rebut", sees=debaters, otherwise=REBUT_TEMPLATE)
    if moderator is not None:
        await turn.act(moderator, sees="all")
        turn.choose(moderator)
    elif decide == "vote":
        votes = Counter(turn.artifacts[agent].strip() for agent in debaters)
        turn.choose(max(debaters, key=lambda agent: votes[turn.artifacts[agent].strip()]))
