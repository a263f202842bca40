"""One part of a reward: its function found, its options checked, its value watched."""

from __future__ import annotations

import asyncio
import inspect
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any

from collab.errors import CollabError, RewardError, attribute
from collab.plugins import check_call, check_options, find, in_thread
from collab.recipe.reward import PartSpec
from collab.rewards.context import Part, RewardContext
from collab.rewards.library import BUILT_IN

AGENT_OPTIONS = ("agent", "helper")
"""Options that name an agent; in a team without that agent the part does not apply."""


class Budget:
    """The time that all parts of one score have together, waiting for the judge apart."""

    def __init__(self, seconds: float, context: RewardContext) -> None:
        self.seconds, self._context = seconds, context
        self._started = time.perf_counter()

    def left(self) -> float:
        own = time.perf_counter() - self._started - self._context.judge_seconds
        return self.seconds - own


@dataclass(frozen=True)
class PartFunction:
    name: str
    function: Callable[..., Any]
    options: Mapping[str, Any]
    built_in: bool
    agents: tuple[str, ...]
    """The agents that the part is about."""

    async def evaluate(self, context: RewardContext, budget: Budget) -> Part:
        """The part's value, from 0 to 1; `budget` is the time of all parts together.

        Raises:
            RewardError: the function raised, took too long, or gave something else.
            CollabError: as it came out of `context`.
        """
        try:
            returned = await self._within(self._call(context), budget)
        except CollabError:
            raise
        except Exception as error:
            raise attribute(error, RewardError, f"reward part '{self.name}'") from error
        return self._checked(returned)

    async def _call(self, context: RewardContext) -> Any:
        if self.built_in and inspect.iscoroutinefunction(self.function):
            return await self.function(context, **self.options)
        # In a thread, so that a part that is stuck fails its episode and holds up no other.
        return await in_thread(partial(self.function, context, **self.options))

    async def _within(self, work: Awaitable[Any], budget: Budget) -> Any:
        task = asyncio.ensure_future(work)
        try:
            while (left := budget.left()) > 0:
                done, _ = await asyncio.wait({task}, timeout=left)
                if done:
                    return task.result()
        finally:
            task.cancel()
        raise RewardError(
            f"reward part '{self.name}' was not done within {budget.seconds:g} s, the time of"
            " all parts together; raise the reward's 'seconds' or make the part faster"
        )

    def _checked(self, returned: Any) -> Part:
        match returned:
            case Part():
                part = returned
            case (value, str(reason)):
                part = Part(value, reason)
            case _:
                part = Part(returned)
        number: Any = part.value
        if not isinstance(number, int | float | Real):
            raise RewardError(
                f"reward part '{self.name}' gave a {type(number).__name__}; a part gives a"
                " number from 0 to 1, (number, reason), or a Part"
            )
        value = float(number)
        if not (math.isfinite(value) and 0.0 <= value <= 1.0):
            raise RewardError(
                f"reward part '{self.name}' gave {value}; a part gives a number from 0 to 1"
            )
        return Part(value, part.reason, part.applies, part.passes)


def open_part(name: str, spec: PartSpec) -> PartFunction:
    """The function of a part, with its options.

    Raises:
        RecipeError: no such function, or an option that it does not take.
    """
    function = find("reward", spec.use, BUILT_IN)
    what = f"reward part '{name}' ({spec.use})"
    options = check_options(what, function, spec.options)
    check_call(what, function, ("context",), options)
    parameters = inspect.signature(function).parameters
    named = [
        options.get(option, parameters[option].default)
        for option in AGENT_OPTIONS
        if option in parameters
    ]
    agents = tuple(agent for agent in named if isinstance(agent, str) and agent)
    return PartFunction(name, function, options, spec.use in BUILT_IN, agents)
