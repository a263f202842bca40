"""Tool calls as text, for models that have no other way to write them.

    ```tool
    {"name": "search", "arguments": {"query": "prime numbers"}}
    ```

Other forms that models have learned are also read: `<tool_call>{...}</tool_call>` (Hermes, Qwen),
`[TOOL_CALLS]...` (Mistral), and a bare `{"name": ..., "parameters": ...}` (Llama), if it is the
whole response and calls one of the agent's tools.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from typing import Any

from pydantic import ValidationError

from collab.models.base import Request
from collab.records import Message, ToolCall, ToolSpec
from collab.wording import list_errors

_OPENING = re.compile(r"(?:<tool_call>|```tool\b[^\S\n]*\n)\s*")
_LIST_OPENING = re.compile(r"\[TOOL_CALLS\]\s*")
_NAME = r"[\w.-]{1,64}"
_LISTED_CALL = re.compile(rf"({_NAME})(?:\[CALL_ID\]\w+)?(?:\[ARGS\])?\s*(?=\{{)")
_BARE_CALL = re.compile(
    r'(?:<\|python_tag\|>)?\s*(?=\{\s*(?:"type"\s*:\s*"function"\s*,\s*)?'
    rf'"name"\s*:\s*"({_NAME})"\s*,\s*"(?:parameters|arguments)"\s*:)'
)
_JSON_DECODER = json.JSONDecoder(strict=False)  # models write line breaks in strings

_CALL_INSTRUCTIONS = """\
You can call tools before you answer. To call one, write a block of this form and end there:

```tool
{"name": "NAME", "arguments": {"ARGUMENT": VALUE}}
```

You are then told its result. A response without such a block is your answer. The tools:
"""


class UnreadableCall(ValueError):
    """A response begins a tool call that is malformed."""


def read_calls(text: str, tools: Collection[str] = ()) -> tuple[ToolCall, ...]:
    """Return the calls in a response, in order, and ignore thoughts before them.

    Args:
        tools: names of the agent's tools; a bare object is a call of one of these.

    Raises:
        UnreadableCall: a call is malformed. The message says why.
    """
    content = text.rpartition("</think>")[2].strip()
    if (bare := _BARE_CALL.match(content)) and bare[1] in tools:
        return _read_bare_calls(content[bare.end() :])
    if listed := _LIST_OPENING.search(content):
        return _read_call_list(content[listed.end() :])
    calls: list[ToolCall] = []
    end = 0
    while match := _OPENING.search(content, end):
        data, end = _decode_json(content, match.end())
        calls.append(_make_call(data))
    return tuple(calls)


def text_before_calls(text: str) -> str:
    """Return the text of a response before its first call, including its thoughts."""
    thought, mark, content = text.rpartition("</think>")
    starts = [
        match.start() for form in (_OPENING, _LIST_OPENING) if (match := form.search(content))
    ]
    if bare := _BARE_CALL.match(content.strip()):
        starts.append(content.index(content.strip()) + bare.start())
    return f"{thought}{mark}{content[: min(starts)] if starts else content}".rstrip()


def _read_bare_calls(content: str) -> tuple[ToolCall, ...]:
    """Read bare objects, separated only by a semicolon or whitespace."""
    calls: list[ToolCall] = []
    end = 0
    while end < len(content):
        data, end = _decode_json(content, end)
        calls.append(_make_call(data))
        end += len(content[end:]) - len(content[end:].lstrip("; \n\t"))
    return tuple(calls)


def _read_call_list(content: str) -> tuple[ToolCall, ...]:
    """Read a list of objects, or each name before its arguments, as later versions write it."""
    if content.startswith("["):
        data, _ = _decode_json(content, 0)
        return tuple(_make_call(item) for item in data) if isinstance(data, list) else ()
    calls: list[ToolCall] = []
    end = 0
    while named := _LISTED_CALL.match(content, end):
        arguments, end = _decode_json(content, named.end())
        calls.append(_make_call({"name": named[1], "arguments": arguments}))
        if again := _LIST_OPENING.match(content, end):
            end = again.end()
    if not calls:
        raise UnreadableCall("no tool name with arguments follows [TOOL_CALLS]")
    return tuple(calls)


def _decode_json(text: str, start: int) -> tuple[object, int]:
    try:
        return _JSON_DECODER.raw_decode(text, start)
    except ValueError as error:
        raise UnreadableCall(f"not JSON: {error}") from None
    except RecursionError:
        raise UnreadableCall("it is nested too deeply") from None


def _make_call(data: object) -> ToolCall:
    if not isinstance(data, dict) or "name" not in data:
        raise UnreadableCall('not an object with "name" and "arguments"')
    name, arguments = data["name"], data.get("arguments", data.get("parameters", {}))
    if not isinstance(name, str) or not re.fullmatch(_NAME, name):
        raise UnreadableCall(f'"name" is not the name of a tool: {name!r:.80}')
    if not isinstance(arguments, dict):
        raise UnreadableCall('"arguments" is not an object')
    try:
        return ToolCall(name=name, arguments=arguments)
    except ValidationError as error:
        raise UnreadableCall(list_errors(error)[0]) from None


def plain_messages(request: Request) -> tuple[Message, ...]:
    """Return the request's messages for a model without tool support.

    The first message describes the tools. A tool's result becomes a user message.
    """
    if not request.tools:
        return request.messages
    history: list[Message] = []
    after_tool = False
    for message in request.messages:
        turn = plain_message(message)
        if after_tool and turn.role == "user":  # templates expect turns to alternate
            turn = Message(role="user", content=f"{history.pop().content}\n\n{turn.content}")
        history.append(turn)
        after_tool = message.role == "tool"
    first, *others = history
    description = describe_tools(request.tools)
    content = (
        f"{first.content}\n\n{description}"
        if first.role == "system"
        else f"{description}\n{first.content}"
    )
    return (first.model_copy(update={"content": content}), *others)


def plain_message(message: Message) -> Message:
    """Return the message with its tool calls and results written as text."""
    if message.role == "tool":
        name = message.answers.name if message.answers else "the tool"
        return Message(role="user", content=f"Result of {name}:\n{message.content}")
    calls = [format_call(call) for call in message.tool_calls if not call.is_text]
    content = "\n".join([message.content, *calls]) if calls else message.content
    return Message(role=message.role, content=content)


def format_call(call: ToolCall) -> str:
    """Return a tool call as text, in the form that prompts describe."""
    data = {"name": call.name, "arguments": call.arguments}
    return f"```tool\n{json.dumps(data, ensure_ascii=False)}\n```"


def tool_schemas(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """Return the tools as JSON schemas, the form that chat templates and OpenAI's API take."""
    return [{"type": "function", "function": tool.model_dump()} for tool in tools]


def describe_tools(tools: Sequence[ToolSpec]) -> str:
    """Return a description of the call format, and of each tool with its arguments, for a
    prompt."""
    return _CALL_INSTRUCTIONS + "".join(
        f"\n{tool.name}: {tool.description}\n"
        f"its arguments, as JSON Schema: {json.dumps(tool.parameters)}\n"
        for tool in tools
    )
