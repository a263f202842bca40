"""Reward functions written for other trainers, as parts of a reward here.

A part is a number from 0 to 1 of one joint action; elsewhere rewards have any range and come as a
list. Each adapter is told the range and calls the function with lists of one.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from math import isfinite
from typing import Any

from collab.errors import RecipeError, RewardError
from collab.given import plain_name
from collab.rewards.context import Part, RewardContext

Adapted = Callable[[RewardContext], Awaitable[Part]]


def from_trl(
    function: Callable[..., Any], *, low: float = 0.0, high: float = 1.0, agent: str | None = None
) -> Adapted:
    """A reward function of TRL, `f(completions, prompts, **columns) -> list[float]`, as a part.

    It is called by keyword with what it takes of `prompts`, `completions` and the problem's fields,
    hidden ones among them, each as a list of one. `None` for a completion says that the part does
    not apply.

    Args:
        low: the least that it gives, which is worth 0 points.
        high: the most that it gives, which is worth the part's whole weight.
        agent: whose answer it judges; None for the team's joint answer.

    Raises:
        RecipeError: `low` is not below `high`, or the function takes what only TRL has.
    """
    takes, takes_all = _parameters(function)
    if "completion_ids" in takes and takes["completion_ids"].default is inspect.Parameter.empty:
        raise RecipeError(
            f"from_trl: {plain_name(function)} takes completion_ids, and a reward sees texts only"
        )
    scaled = _scale(function, low, high)

    async def part(context: RewardContext) -> Part:
        fields = _fields(context)
        answer = context.joint.text if agent is None else _answer_of(context, agent)
        given = {"prompts": fields.get("prompt"), "completions": answer, **fields}
        call = {name: [value] for name, value in given.items() if takes_all or name in takes}
        return scaled(await _one(function, function(**call)))

    return _named(part, function)


def from_comlrl(function: Callable[..., Any], *, low: float = 0.0, high: float = 1.0) -> Adapted:
    """A reward function of CoMLRL, with a list of completions for each agent, as a part.

    The answers are given by position in the team's order. `batch_items` is a list of the problem's
    fields where the function takes it, and `prompts` one of its prompt.

    Args:
        low: the least that it gives, which is worth 0 points.
        high: the most that it gives, which is worth the part's whole weight.

    Raises:
        RecipeError: `low` is not below `high`.
    """
    takes, _ = _parameters(function)
    scaled = _scale(function, low, high)

    async def part(context: RewardContext) -> Part:
        fields = _fields(context)
        given = {"batch_items": [fields], "prompts": [fields.get("prompt")]}
        named = {name: value for name, value in given.items() if name in takes}
        answers = [[text] for text in context.artefacts.values()]
        return scaled(await _one(function, function(*answers, **named)))

    return _named(part, function)


def _parameters(function: Callable[..., Any]) -> tuple[dict[str, inspect.Parameter], bool]:
    """The parameters that can be given by keyword, and whether all keywords can."""
    parameters = inspect.signature(function).parameters.values()
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    named = {one.name: one for one in parameters if one.kind in by_name}
    return named, any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters)


def _fields(context: RewardContext) -> dict[str, Any]:
    return {**context.problem.public, **context.problem.hidden}


def _answer_of(context: RewardContext, agent: str) -> str:
    if agent not in context.artefacts:
        raise RewardError(f"there is no agent '{agent}'; the team: {', '.join(context.artefacts)}")
    return context.artefacts[agent]


async def _one(function: Callable[..., Any], returned: Any) -> float | None:
    """The only value of what a reward function gave."""
    if inspect.isawaitable(returned):
        returned = await returned
    values = returned.tolist() if hasattr(returned, "tolist") else returned
    if not isinstance(values, Sequence) or isinstance(values, str) or len(values) != 1:
        raise RewardError(
            f"{plain_name(function)} gave {values!r:.80}; for one completion it gives a list of one"
            " number"
        )
    return None if values[0] is None else float(values[0])


def _scale(function: Callable[..., Any], low: float, high: float) -> Callable[[float | None], Part]:
    """From a value between `low` and `high` to a part."""
    if not (isfinite(low) and isfinite(high) and low < high):
        raise RecipeError(f"a reward's range goes from low to high, got {low} to {high}")

    def scaled(value: float | None) -> Part:
        if value is None:
            return Part(0.0, "does not apply here", applies=False)
        if not low <= value <= high:
            raise RewardError(
                f"{plain_name(function)} gave {value:g}, beyond {low:g} to {high:g}; say its range:"
                " low=..., high=..."
            )
        return Part((value - low) / (high - low), f"{value:g} of {high:g}")

    return scaled


def _named(part: Adapted, function: Callable[..., Any]) -> Adapted:
    part.__name__ = plain_name(function)
    part.__doc__ = function.__doc__
    return part
