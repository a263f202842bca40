"""The harness of agents with tools: they call tools until they answer."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from collab.models.tool_text import UnreadableCall, read_calls
from collab.records import Action, Message, ToolCall
from collab.runtime.harness.move import Move

LIMIT = "You have made all of your {calls} calls of tools. Give your answer now."


async def tools(
    move: Move,
    *,
    calls: Annotated[int, Field(ge=1)] = 8,
    seconds: Annotated[float, Field(gt=0)] = 30.0,
    characters: Annotated[int, Field(ge=1)] = 4000,
) -> None:
    """Let the agent call its tools until it answers without a call.

    Args:
        move: what the agent does when it is its turn.
        calls: the most calls, after which the agent is asked for its answer; a call that cannot
            be read counts as one.
        seconds: the longest that one call may take.
        characters: the longest result that is told; of a longer one, its beginning.
    """
    left = calls
    while left > 0:
        action = await move.generate()
        if trouble := _unreadable(move, action):
            move.observe(Message(role="user", content=trouble))
            left -= 1
        elif not action.tool_calls:
            return
        for call in action.tool_calls:
            result = f"Error: not called, since the limit of {calls} calls is reached"
            if left > 0:
                result = await _result(move, call, seconds, characters)
            move.observe(Message(role="tool", content=result, answers=call))
            left -= 1
    move.observe(Message(role="user", content=LIMIT.format(calls=calls)))
    await move.generate(may_call=False)


def _unreadable(move: Move, action: Action) -> str:
    """What is wrong with a call that the agent has begun; empty where nothing is."""
    if action.tool_calls:
        return ""
    try:
        read_calls(action.text, move.tools)
    except UnreadableCall as error:
        return f"Your call of a tool could not be read: {error}. Write it again."
    return ""


async def _result(move: Move, call: ToolCall, seconds: float, characters: int) -> str:
    tool = move.tools.get(call.name)
    if tool is None:
        return f"Error: there is no tool '{call.name}'; there is: {', '.join(move.tools)}"
    result = await tool.answer(call.arguments, seconds=seconds)
    if len(result) <= characters:
        return result
    return f"{result[:characters]}\n(cut: {characters} of {len(result)} characters)"
