"""Protocols: the order of moves within a turn, and what each agent sees of the others.

A protocol is an async function `(turn, **options)` over a `collab.runtime.turn.Turn`. Each built-in
protocol is a file here, and its function has the same name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from collab.lazy import BuiltIn
from collab.plugins import bind_options
from collab.recipe.base import Component
from collab.runtime.turn import Turn

Protocol = Callable[[Turn], Awaitable[None]]

_NAMES = (
    "single",
    "parallel",
    "sequential",
    "discussion",
    "debate",
    "pipeline",
    "critic_loop",
    "repair",
)
BUILT_IN = BuiltIn("collab.runtime.protocols", {name: f"{name}:{name}" for name in _NAMES})


def protocol_for(component: Component) -> Protocol:
    """Return the protocol that a team names, with its options.

    Raises:
        RecipeError: there is no such protocol, it does not take these options, or it is not async.
    """
    return bind_options(
        "protocol", component.use, component.options, BUILT_IN, "turn", is_async=True
    )


__all__ = ["BUILT_IN", "Protocol", "protocol_for"]
