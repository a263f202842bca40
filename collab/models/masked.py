"""A chat whose strings can be hidden from the tokenizer, by blanks or masks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from collab.models.chat_template import render

Message = dict[str, Any]
"""A message for a chat template: `role` and `content`, and in a tool round `tool_calls` and
`name`."""

MASKS = range(0xF0000, 0xFFFFE), range(0x100000, 0x10FFFE)
"""Private-use characters, which have no meaning and occur in no template."""
BLANK = chr(MASKS[0].start)

DATA = ("tool_calls", "tool_call_id", "name")
"""Fields of a message that templates write in addition to its content."""
WORDS = {
    *("type", "string", "integer", "number", "boolean", "null", "object", "array", "enum", "anyOf"),
    *("properties", "required", "items", "additionalProperties", "title", "default"),
    *("id", "function", "name", "description", "parameters", "arguments"),
}
"""Words that templates look for in a tool's description. Masks never hide them."""


@dataclass(frozen=True)
class Chat:
    """Messages and tools, in the form that a chat template takes."""

    messages: Sequence[Message]
    tools: Sequence[dict[str, Any]] = ()

    def rendered(self, tokenizer: Any) -> str:
        """Return the chat and the beginning of its answer in the template.

        Raises:
            TemplateError: the template refuses the messages.
            Overrun: the template exceeds the cost of a rendering.
        """
        return render(tokenizer, self.messages, self.tools, begin_answer=True)

    def texts(self) -> Iterator[str]:
        """Yield every string that comes from the messages and tools, not from the template."""
        for message in self.messages:
            yield message["content"]
            yield from _texts([message.get(key) for key in DATA])
        yield from _texts(self.tools)

    @cached_property
    def masks(self) -> dict[int, int]:
        """Masks by character, for every character of the chat's strings except whitespace, which
        templates trim."""
        used = {ord(char) for text in self.texts() for char in text}
        free = (code for codes in MASKS for code in codes if code not in used)
        visible = sorted(code for code in used if not chr(code).isspace())
        return dict(zip(visible, free, strict=False))

    def masked(self, which: Collection[int]) -> Chat:
        """Return the chat with all tool data masked, and the contents of the messages numbered
        `which`.
        """
        return self._with(
            [
                message["content"].translate(self.masks) if n in which else message["content"]
                for n, message in enumerate(self.messages)
            ]
        )

    def blank(self) -> Chat:
        """Return the chat with each content that is not empty replaced by one character."""
        contents = [message["content"] for message in self.messages]
        return self._with([BLANK if content.strip() else content for content in contents])

    def with_content(self, number: int, content: str) -> Chat:
        """Return the chat with `content` in message `number`."""
        messages = list(self.messages)
        messages[number] = {**messages[number], "content": content}
        return replace(self, messages=messages)

    def _with(self, contents: Sequence[str]) -> Chat:
        """Return the chat with these contents, and masks over the data of messages and tools."""
        # Characters that JSON escapes are not masked, so that JSON still escapes them.
        table = {c: mask for c, mask in self.masks.items() if c >= ord(" ") and chr(c) not in '"\\'}
        messages = [
            {**m, "content": content, **{key: _hidden(m[key], table) for key in DATA if key in m}}
            for m, content in zip(self.messages, contents, strict=True)
        ]
        return Chat(messages, [_hidden(tool, table) for tool in self.tools])


def _texts(value: Any) -> Iterator[str]:
    """Yield the strings within JSON data, including its keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts([*value, *value.values()])
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


def _hidden(value: Any, table: Mapping[int, int]) -> Any:
    """Return JSON data with a mask over every string that is not in `WORDS`."""
    if isinstance(value, str):
        return value if value in WORDS else value.translate(table)
    if isinstance(value, Mapping):
        return {_hidden(key, table): _hidden(item, table) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden(item, table) for item in value]
    return value
