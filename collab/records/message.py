"""What a model reads: messages, the tools it may call, and the calls it asks for."""

from __future__ import annotations

from typing import Any, Literal

from collab.records.base import Record

Style = Literal["chat", "completion"]
"""How a model is given its messages: through its chat template, or as plain text to go on with."""


class ToolSpec(Record):
    """A tool as a model is told of it."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = {}
    """JSON Schema of the object that holds its arguments."""


class ToolCall(Record):
    """A model asks for a tool to be called."""

    name: str
    arguments: dict[str, Any] = {}
    id: str = ""
    """A service's own name for the call; empty where a model wrote the call as text."""


class Message(Record):
    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    """What an assistant's message asks for. Where it was written as text, `content` holds it."""
    answers: ToolCall | None = None
    """The call that a tool's message answers."""
