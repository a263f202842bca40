"""Protocols: the order of moves within a turn, and what each agent sees of the others.

A protocol is an async function `(turn, **options)` over a `collab.runtime.turn.Turn`. Each built-in
protocol is a file here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from collab.plugins import bind
from collab.recipe.base import Component
from collab.runtime.protocols.critic_loop import critic_loop
from collab.runtime.protocols.debate import debate
from collab.runtime.protocols.discussion import discussion
from collab.runtime.protocols.parallel import parallel
from collab.runtime.protocols.pipeline import pipeline
from collab.runtime.protocols.repair import repair
from collab.runtime.protocols.sequential import sequential
from collab.runtime.protocols.single import single
from collab.runtime.turn import Turn

Protocol = Callable[[Turn], Awaitable[None]]

BUILT_IN: dict[str, Callable[..., Awaitable[None]]] = {
    "single": single,
    "parallel": parallel,
    "sequential": sequential,
    "discussion": discussion,
    "debate": debate,
    "pipeline": pipeline,
    "critic_loop": critic_loop,
    "repair": repair,
}


def protocol_for(component: Component) -> Protocol:
    """Return the protocol that a team names, with its options.

    Raises:
        RecipeError: there is no such protocol, it does not take these options, or it is not async.
    """
    return bind("protocol", component.use, component.options, BUILT_IN, "turn", is_async=True)


__all__ = ["BUILT_IN", "Protocol", "protocol_for"]
