"""Adapters for reward functions that were written for other libraries."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Awaitable, Callable, Collection, Sequence
from math import isfinite
from typing import Any

from collab.errors import RecipeError, RewardError
from collab.passed_functions import plain_name
from collab.plugins import check_call
from collab.rewards.context import Part, RewardContext

Adapted = Callable[[RewardContext], Awaitable[Part]]
CallFunction = Callable[[RewardContext], Any]
CheckAgents = Callable[[Collection[str]], None]


def from_trl(
    function: Callable[..., Any], *, low: float = 0.0, high: float = 1.0, agent: str | None = None
) -> Adapted:
    """Return a reward function of TRL, `f(completions, prompts, **columns) -> list[float]`, as a
    part.

    The function gets the keywords that it accepts: `prompts`, `completions` and the problem's
    fields, including hidden ones. Each value is a list with one item. If it returns `None` for a
    completion, the part does not apply.

    Args:
        low: the function's lowest value, worth 0 points.
        high: the function's highest value, worth the part's whole weight.
        agent: the agent whose answer the function scores, or None for the team's joint answer.

    Raises:
        RecipeError: `low` is not below `high`, or the function takes an argument that only TRL has.
    """
    accepted, accepts_all = _keyword_parameters(function)
    token_ids = accepted.get("completion_ids")
    if token_ids is not None and token_ids.default is inspect.Parameter.empty:
        raise RecipeError(
            f"from_trl: {plain_name(function)} takes completion_ids, but a reward gets strings only"
        )

    def call(context: RewardContext) -> Any:
        fields = {**context.problem.public, **context.problem.hidden}
        answer = context.answer if agent is None else context.artifacts.get(agent)
        if answer is None:
            raise RewardError(f"agent '{agent}' did not answer; leave out from_trl's `agent`")
        available = {**fields, "prompts": fields.get("prompt"), "completions": answer}
        names = available.keys() if accepts_all else available.keys() & accepted.keys()
        return function(**{name: [available[name]] for name in names})

    def check(agents: Collection[str]) -> None:
        if agent is not None and agent not in agents:
            raise RecipeError(f"from_trl: no agent '{agent}'; the team has {', '.join(agents)}")

    return _make_part(function, low, high, call, check)


def from_comlrl(function: Callable[..., Any], *, low: float = 0.0, high: float = 1.0) -> Adapted:
    """Return a reward function of CoMLRL, with one list of completions per agent, as a part.

    The answers are passed by position in the team's order. If the function takes `batch_items`, it
    gets a list of the problem's fields. If it takes `prompts`, it gets a list of the prompt.

    Args:
        low: the function's lowest value, worth 0 points.
        high: the function's highest value, worth the part's whole weight.

    Raises:
        RecipeError: `low` is not below `high`.
    """
    named = _keyword_parameters(function)[0].keys() & {"batch_items", "prompts"}

    def call(context: RewardContext) -> Any:
        fields = {**context.problem.public, **context.problem.hidden}
        available = {"batch_items": [fields], "prompts": [fields.get("prompt")]}
        answers = [[text] for text in context.artifacts.values()]
        return function(*answers, **{name: available[name] for name in named})

    def check(agents: Collection[str]) -> None:
        check_call(f"from_comlrl: {plain_name(function)}", function, [*agents], named)

    return _make_part(function, low, high, call, check)


def _keyword_parameters(function: Callable[..., Any]) -> tuple[dict[str, inspect.Parameter], bool]:
    """Return the parameters that can be passed by keyword, and whether any keyword can."""
    parameters = inspect.signature(function).parameters.values()
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    named = {one.name: one for one in parameters if one.kind in by_name}
    return named, any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters)


async def _single_value(function: Callable[..., Any], returned: Any) -> float | None:
    """Return the only value of a reward function's result."""
    if inspect.isawaitable(returned):
        returned = await returned
    values = returned.tolist() if hasattr(returned, "tolist") else returned
    if not isinstance(values, Sequence) or isinstance(values, str) or len(values) != 1:
        raise RewardError(
            f"{plain_name(function)} returned {values!r:.80}; for one completion, it must return a"
            " list of one number"
        )
    return None if values[0] is None else float(values[0])


def _make_part(
    function: Callable[..., Any], low: float, high: float, call: CallFunction, check: CheckAgents
) -> Adapted:
    """Return a part from `call`, which calls `function` and gets a value from `low` to `high`."""
    if not (isfinite(low) and isfinite(high) and low < high):
        raise RecipeError(f"a reward's range goes from low to high, got {low} to {high}")

    async def part(context: RewardContext) -> Part:
        value = await _single_value(function, call(context))
        if value is None:
            return Part(0.0, "does not apply here", applies=False)
        if not low <= value <= high:
            raise RewardError(
                f"{plain_name(function)} returned {value:g}, outside {low:g} to {high:g}; set its"
                " range: low=..., high=..."
            )
        return Part((value - low) / (high - low), f"{value:g} of {high:g}")

    part.__name__ = plain_name(function)
    part.__module__ = sys._getframe(2).f_globals.get("__name__", "")  # where a file may hold it
    part.__doc__ = function.__doc__
    part.check_agents = check  # type: ignore[attr-defined]
    return part
