"""One part of a reward: calls its function, and checks its values."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any

from collab.errors import CollabError, RewardError, convert_error
from collab.recipe.team import ENTRY_PLACEHOLDER, HELPER_PLACEHOLDER, Roles
from collab.rewards.context import Part, RewardContext
from collab.threads import run_in_thread


@dataclass(frozen=True)
class PartFunction:
    """A reward part's function, with its options."""

    name: str
    function: Callable[..., Any]
    options: Mapping[str, Any]
    built_in: bool
    agents_by_option: Mapping[str, str]
    """Agents or roles that the part's options name, by option."""

    def inapplicable_reason(self, roles: Roles, agents: Collection[str]) -> str:
        """Return the reason why the part does not apply to a team, or "" if it does."""
        reasons = (roles.lacks(name, agents) for name in self.agents_by_option.values())
        return next(filter(None, reasons), "")

    def options_by_helper(self, roles: Roles) -> dict[str, dict[str, Any]]:
        """Return the options of each call: one per helper, if the part is about the helpers.

        The key is the helper's name, or "" for a part that is called once.
        """
        helpers = roles.helpers if HELPER_PLACEHOLDER in self.agents_by_option.values() else ("",)
        options = {}
        for helper in helpers:
            known = {ENTRY_PLACEHOLDER: roles.entry, HELPER_PLACEHOLDER: helper}
            agents = {o: known.get(name, name) for o, name in self.agents_by_option.items()}
            options[helper] = {**self.options, **agents}
        return options

    async def evaluate(self, context: RewardContext, seconds: float) -> Part:
        """Return the part's value, from 0 to 1. For a part about several helpers, return the mean
        over them.

        `seconds` is the time limit for all parts together, without waiting for the sandbox.

        Raises:
            RewardError: the function raised, took too long, or returned something else.
            CollabError: as raised by `context`.
        """
        parts = {
            helper: await self._evaluate_call(context, options, seconds)
            for helper, options in self.options_by_helper(context.roles).items()
        }
        return next(iter(parts.values())) if len(parts) == 1 else _mean_part(parts)

    async def _evaluate_call(
        self, context: RewardContext, options: Mapping[str, Any], seconds: float
    ) -> Part:
        work = asyncio.ensure_future(self._call(context, options))
        try:
            while (left := seconds - context.elapsed()) > 0 and not work.done():
                await asyncio.wait({work}, timeout=left)
            if not work.done():
                raise RewardError(
                    f"reward part '{self.name}' did not finish within {seconds:g} s, the limit for"
                    " all parts together; raise the reward's 'seconds' or make the part faster"
                )
            returned = work.result()
        except CollabError:
            raise
        except Exception as error:
            raise convert_error(error, RewardError, f"reward part '{self.name}'") from error
        finally:
            work.cancel()
        return self._check_result(returned)

    async def _call(self, context: RewardContext, options: Mapping[str, Any]) -> Any:
        if self.built_in and inspect.iscoroutinefunction(self.function):
            return await self.function(context, **options)
        # In a thread, so a part that hangs fails its own episode and delays no other.
        return await run_in_thread(partial(self.function, context, **options))

    def _check_result(self, returned: Any) -> Part:
        match returned:
            case Part():
                part = returned
            case (value, str(reason)):
                part = Part(value, reason)
            case _:
                part = Part(returned)
        number: Any = part.value
        if (type(number).__module__, type(number).__name__) == ("numpy", "bool"):
            number = bool(number)  # numpy's own bool is no number, unlike Python's
        if not isinstance(number, Real):
            raise RewardError(
                f"reward part '{self.name}' returned a {type(number).__name__}; a part returns a"
                " number from 0 to 1, (number, reason), or a Part"
            )
        value = float(number)
        if not (math.isfinite(value) and 0.0 <= value <= 1.0):
            raise RewardError(
                f"reward part '{self.name}' returned {value}; a part returns a number from 0 to 1"
            )
        solved = None if part.solved is None else bool(part.solved)
        return Part(value, part.reason, part.applies, part.passes, solved)


def _mean_part(parts: Mapping[str, Part]) -> Part:
    """Average the results of the helpers to whom the part applies."""
    apply = {helper: part for helper, part in parts.items() if part.applies}
    if not apply:
        return Part(0.0, "applies to no helper", applies=False)
    reason = "; ".join(f"{helper}: {part.reason}" for helper, part in apply.items())
    value = math.fsum(part.value for part in apply.values()) / len(apply)
    solved = [part.solved for part in apply.values() if part.solved is not None]
    return Part(value, reason, solved=all(solved) if solved else None)
