"""Harnesses: an agent's behavior during its move.

A harness is an async function `(move, **options)` over a `collab.runtime.harness.move.Move`. It
generates one response of the agent's model, or several with observations between them. The last
response is the agent's answer.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from collab.plugins import bind_options
from collab.recipe.base import Component
from collab.runtime.harness.move import Move
from collab.runtime.harness.tools import tools

Harness = Callable[[Move], Coroutine[Any, Any, None]]


async def respond(move: Move) -> None:
    """Generate one response, which is the answer."""
    await move.generate()


BUILT_IN: dict[str, Callable[..., Coroutine[Any, Any, None]]] = {"respond": respond, "tools": tools}


def harness_for(component: Component) -> Harness:
    """Return the harness that an agent names, with its options.

    Raises:
        RecipeError: there is no such harness, it does not take these options, or it is not async.
    """
    return bind_options(
        "harness", component.use, component.options, BUILT_IN, "move", is_async=True
    )


__all__ = ["BUILT_IN", "Harness", "Move", "harness_for", "respond"]
