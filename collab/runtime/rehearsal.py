"""What a protocol would do, found out without a model."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from collab.errors import AgentError, RecipeError, attribute
from collab.recipe import Recipe
from collab.runtime.protocols import Protocol, protocol_for
from collab.runtime.turn import Round, Turn

MOST_ROUNDS = 1000
"""A protocol that lets agents act more often within a turn is taken for one without an end."""


async def rehearse(protocol: Protocol, agents: Sequence[str]) -> tuple[Round, ...]:
    """The rounds of a turn in which every answer is empty.

    Raises:
        RecipeError: the protocol does not fit the team, fails, or does not end.
    """
    rounds: list[Round] = []

    async def play(round_: Round) -> Mapping[str, str]:
        if len(rounds) == MOST_ROUNDS:
            raise RecipeError(
                f"the protocol lets agents act in more than {MOST_ROUNDS} rounds of one turn; give"
                " its loop a limit"
            )
        rounds.append(round_)
        return dict.fromkeys(round_.agents, "")

    try:
        await protocol(Turn(0, agents, play))
    except Exception as error:
        found = attribute(error, AgentError)
        raise found if isinstance(found, RecipeError) else RecipeError(str(found)) from error
    if not rounds:
        raise RecipeError("the protocol ends without letting any agent act")
    return tuple(rounds)


def rounds_of(recipe: Recipe) -> tuple[Round, ...]:
    """The rounds of a turn of a recipe's team; raises RecipeError as `rehearse` does."""
    team = recipe.team

    def rounds() -> tuple[Round, ...]:
        return asyncio.run(rehearse(protocol_for(team.protocol), list(team.agents)))

    with ThreadPoolExecutor(max_workers=1) as thread:  # an event loop may be running here
        return thread.submit(rounds).result()
