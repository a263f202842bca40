"""A standard operating procedure: roles exchange documents on a shared board.

After MetaGPT (arXiv 2308.00352): each role writes one kind of document and subscribes to the kinds
that it needs. A role acts as soon as all of these are on the board. Roles that become ready
together act at the same time.
"""

from __future__ import annotations

from collab.errors import RecipeError
from collab.runtime.turn import Turn


async def pipeline(
    turn: Turn, *, reads: dict[str, list[str]], writes: dict[str, str] | None = None
) -> None:
    """Run the roles in the order that their documents require.

    Templates see `documents`, a mapping from kind to text, of the kinds that the role reads.

    Args:
        reads: by agent: the kinds of documents that it needs; an agent without an entry needs none.
        writes: by agent: the kind of document that its answer is; default: the agent's name.

    Raises:
        RecipeError: no agent writes a document that is needed, or agents wait for each other.
    """
    kinds = {agent: (writes or {}).get(agent, agent) for agent in turn.agents}
    authors = {kind: agent for agent, kind in kinds.items()}
    _check_documents(turn, reads, writes or {}, authors)
    board: dict[str, str] = {}
    waiting = list(turn.agents)
    while waiting:
        ready = [agent for agent in waiting if all(kind in board for kind in reads.get(agent, ()))]
        if not ready:
            raise RecipeError(
                f"protocol 'pipeline': {', '.join(waiting)} wait for each other's documents"
            )
        answers = await turn.together(
            ready,
            sees={agent: [authors[kind] for kind in reads.get(agent, ())] for agent in ready},
            fields={
                agent: {"documents": {kind: board[kind] for kind in reads.get(agent, ())}}
                for agent in ready
            },
        )
        board |= {kinds[agent]: text for agent, text in answers.items()}
        waiting = [agent for agent in waiting if agent not in ready]


def _check_documents(
    turn: Turn, reads: dict[str, list[str]], writes: dict[str, str], authors: dict[str, str]
) -> None:
    for agent in [*reads, *writes]:
        if agent not in turn.agents:
            raise RecipeError(
                f"protocol 'pipeline' uses the unknown agent '{agent}'; the team's agents:"
                f" {', '.join(turn.agents)}"
            )
    if len(authors) < len(turn.agents):
        raise RecipeError("protocol 'pipeline': two agents write the same kind of document")
    for agent, needed in reads.items():
        for kind in needed:
            if kind not in authors:
                raise RecipeError(
                    f"protocol 'pipeline': '{agent}' reads '{kind}', which no agent writes; kinds:"
                    f" {', '.join(authors)}"
                )
