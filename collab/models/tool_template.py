"""What a chat template that knows tools is given, and how its model's calls are found.

Calls are read by the tokenizer's `response_template`, where it has one, else by the forms of
`collab.models.tool_text`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from collab.models.tool_text import before_calls
from collab.records import Message, ToolCall, ToolSpec

Given = dict[str, Any]
"""A message or a tool, as a template takes it."""


@dataclass(frozen=True)
class ToolTemplate:
    """What is known of a chat template that knows tools."""

    markers: frozenset[int]
    """Special tokens by which its model begins and ends a call."""
    many: bool
    """Whether one message may hold several calls."""
    user_after_tool: bool
    """Whether the user may speak right after a tool."""
    responses: Any = None
    """The tokenizer's `response_template`: how transformers reads a response."""

    def messages(self, messages: Sequence[Message]) -> list[Given]:
        """The messages with their calls and results in the template's own fields."""
        given: list[Given] = []
        numbers = iter(range(1, 100_000))
        waiting: list[Given] = []  # calls that no result stands behind yet
        later: list[Given] = []  # calls that are written once those before have their results
        for message in messages:
            if message.role == "tool":
                if not waiting and later:
                    waiting = [later.pop(0)]
                    given.append({"role": "assistant", "content": "", "tool_calls": list(waiting)})
                given.append(_result(message, waiting.pop(0) if waiting else None))
            elif message.tool_calls:
                calls = [_called(call, next(numbers)) for call in message.tool_calls]
                waiting, later = (calls, []) if self.many else (calls[:1], calls[1:])
                content = self._before_calls(message.content)
                given.append({"role": "assistant", "content": content, "tool_calls": list(waiting)})
            elif message.role == "user" and given and self._joins(given[-1]):
                given[-1]["content"] += f"\n\n{message.content}"
            else:
                given.append({"role": message.role, "content": message.content})
        return given

    def read(
        self, tokenizer: Any, text: str, prompt: Sequence[int], tools: Sequence[ToolSpec]
    ) -> tuple[ToolCall, ...]:
        """The calls that transformers finds in a response; none where the tokenizer cannot tell."""
        if self.responses is None:
            return ()
        try:
            found = tokenizer.parse_response(text, prefix=list(prompt), tools=given_tools(tools))
            called = [call["function"] for call in found.get("tool_calls") or ()]
            return tuple(ToolCall(name=c["name"], arguments=c["arguments"]) for c in called)
        except (ValueError, KeyError, TypeError):  # not of the form
            return ()

    def _before_calls(self, content: str) -> str:
        if self.responses is None:
            return before_calls(content)
        from transformers.utils.chat_parsing import parse_response

        return str(parse_response(content, self.responses, prefix="").get("content") or "")

    def _joins(self, before: Given) -> bool:
        return before["role"] == "tool" and not self.user_after_tool


def given_tools(tools: Sequence[ToolSpec]) -> list[Given]:
    """Tools as a template takes them."""
    return [{"type": "function", "function": tool.model_dump()} for tool in tools]


def _called(call: ToolCall, number: int) -> Given:
    function = {"name": call.name, "arguments": call.arguments}
    return {
        "id": f"call{number:05}",
        "type": "function",
        "function": function,
    }  # Mistral: 9 letters


def _result(message: Message, call: Given | None) -> Given:
    name = message.answers.name if message.answers else "tool"
    given = {"role": "tool", "name": name, "content": message.content}
    return {**given, "tool_call_id": call["id"]} if call else given
