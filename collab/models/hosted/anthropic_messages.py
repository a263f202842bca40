"""An agent's history as the Messages API takes it: blocks of text, calls of tools, results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from collab.models.tool_text import plain
from collab.records import Message


def messages_of(history: Sequence[Message]) -> list[dict[str, Any]]:
    """The messages, the last one of several marked for the cache.

    Results of tools and what the user says after them are one message, as the API wants it.
    """
    messages: list[dict[str, Any]] = []
    after_tool = False
    for message in history:
        role = "assistant" if message.role == "assistant" else "user"
        marked = len(history) > 1 and message is history[-1]
        blocks = _blocks(message, marked=marked)
        if after_tool and role == "user":
            messages[-1]["content"] += blocks
        else:
            messages.append({"role": role, "content": blocks})
        after_tool = message.role == "tool"
    return messages


def text_block(text: str, *, marked: bool) -> dict[str, Any]:
    """A block of text; `marked` for the cache."""
    return _marked({"type": "text", "text": text}, marked=marked)


def _blocks(message: Message, *, marked: bool) -> list[dict[str, Any]]:
    """What a message says; calls that the model wrote as text stay text."""
    if message.answers and message.answers.id:
        result = {
            "type": "tool_result",
            "tool_use_id": message.answers.id,
            "content": message.content,
        }
        return [_marked(result, marked=marked)]
    calls = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
        for call in message.tool_calls
        if call.id
    ]
    if not calls:
        return [text_block(plain(message).content, marked=marked)]
    said = [text_block(message.content, marked=False)] if message.content.strip() else []
    return [*said, *calls]


def _marked(block: dict[str, Any], *, marked: bool) -> dict[str, Any]:
    return {**block, "cache_control": {"type": "ephemeral"}} if marked else block
