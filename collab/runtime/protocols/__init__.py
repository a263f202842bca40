"""Protocols: the order of moves within a turn, and what each agent sees of the others.

A protocol is an async function `(turn, **options)` over a `collab.runtime.turn.Turn`. Each built-in
protocol is a file here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from collab.lazy import BuiltIn
from collab.plugins import bind_options
from collab.recipe.base import Component
from collab.runtime.turn import Turn

Protocol = Callable[[Turn], Awaitable[None]]

BUILT_IN = BuiltIn(
    "collab.runtime.protocols",
    {
        "single": "single:single",
        "parallel": "parallel:parallel",
        "sequential": "sequential:sequential",
        "discussion": "discussion:discussion",
        "debate": "debate:debate",
        "pipeline": "pipeline:pipeline",
        "critic_loop": "critic_loop:critic_loop",
        "repair": "repair:repair",
    },
)


def protocol_for(component: Component) -> Protocol:
    """Return the protocol that a team names, with its options.

    Raises:
        RecipeError: there is no such protocol, it does not take these options, or it is not async.
    """
    return bind_options(
        "protocol", component.use, component.options, BUILT_IN, "turn", is_async=True
    )


__all__ = ["BUILT_IN", "Protocol", "protocol_for"]
