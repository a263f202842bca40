"""The harness of agents with tools: they call tools until they answer."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

from pydantic import Field

from collab.records import Action, Message, ToolCall
from collab.runtime.harness.move import Move
from collab.tools.base import ERROR_PREFIX

MAX_CALLS = 8
"""Default limit of an agent's calls in one move."""
LIMIT_MESSAGE = "You have made all of your {calls} calls of tools. Give your answer now."
MAX_EQUAL_FAILURES = 2
"""Number of failures of the same call after which the agent must answer."""
REPEATED_MESSAGE = "The same call failed {times} times. Give your answer now."


async def tools(
    move: Move,
    *,
    calls: Annotated[int, Field(ge=1)] = MAX_CALLS,
    seconds: Annotated[float, Field(gt=0)] = 30.0,
    characters: Annotated[int, Field(ge=1)] = 4000,
) -> None:
    """Let the agent call its tools until it answers without a call.

    Args:
        move: the agent's move.
        calls: maximum number of calls, after which the agent must answer; an unreadable call counts
            as one. A call that fails twice also ends the calls.
        seconds: time limit of one call.
        characters: longest result passed to the agent; a longer one is truncated.
    """
    left, failures = calls, Counter[str]()
    while left > 0 and max(failures.values(), default=0) < MAX_EQUAL_FAILURES:
        action = await move.generate()
        if trouble := _explain_unreadable(move, action):
            move.observe(Message(role="user", content=trouble))
            failures[action.text] += 1
            left -= 1
        elif not action.tool_calls:
            return
        for call in action.tool_calls:
            result = f"{ERROR_PREFIX}not called, since the limit of {calls} calls is reached"
            if left > 0:
                result = await _call_tool(move, call, seconds, characters)
            move.observe(Message(role="tool", content=result, answers=call))
            failures[f"{call.name} {call.arguments}"] += result.startswith(ERROR_PREFIX)
            left -= 1
    answer = (
        REPEATED_MESSAGE.format(times=MAX_EQUAL_FAILURES)
        if left > 0
        else LIMIT_MESSAGE.format(calls=calls)
    )
    move.observe(Message(role="user", content=answer))
    await move.generate(may_call=False)


def _explain_unreadable(move: Move, action: Action) -> str:
    """Return the answer to a call that cannot be read, or "" if there is none."""
    trouble = move.call_fault(action)
    if trouble and action.is_truncated:
        return (
            f"Your call of a tool was truncated at {action.new_tokens} tokens. Write a shorter one."
        )
    return trouble and f"Your call of a tool could not be read: {trouble}. Write it again."


async def _call_tool(move: Move, call: ToolCall, seconds: float, characters: int) -> str:
    tool = move.tools.get(call.name)
    if tool is None:
        return f"{ERROR_PREFIX}there is no tool '{call.name}'; there is: {', '.join(move.tools)}"
    result = await tool.answer(call.arguments, seconds=seconds)
    if len(result) <= characters:
        return result
    return f"{result[:characters]}\n(cut: {characters} of {len(result)} characters)"
