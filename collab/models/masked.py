"""A chat whose texts can be hidden from the tokenizer: left blank, or put under a mask."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

Message = dict[str, Any]
"""As a template takes it: `role` and `content`, and in a round of tools `tool_calls` and `name`."""

MASKS = range(0xF0000, 0xFFFFE), range(0x100000, 0x10FFFE)
"""Characters that mean nothing, of which none stands in a template."""
BLANK = chr(MASKS[0].start)

DATA = ("tool_calls", "tool_call_id", "name")
"""Of a message, what templates write beside its content."""
WORDS = {
    *("type", "string", "integer", "number", "boolean", "null", "object", "array", "enum", "anyOf"),
    *("properties", "required", "items", "additionalProperties", "title", "default"),
    *("id", "function", "name", "description", "parameters", "arguments"),
}
"""Of a tool's description, what templates look for; no mask hides it."""


@dataclass(frozen=True)
class Chat:
    """Messages and tools, as a chat template takes them."""

    messages: Sequence[Message]
    tools: Sequence[dict[str, Any]] = ()

    def rendered(self, tokenizer: Any, *, tokenize: bool) -> Any:
        """The text of the chat and of what begins its answer, or its tokens.

        Raises:
            TemplateError: the template refuses the messages.
        """
        return tokenizer.apply_chat_template(
            list(self.messages),
            tools=list(self.tools) or None,
            add_generation_prompt=True,
            tokenize=tokenize,
            return_dict=False,
        )

    def texts(self) -> Iterator[str]:
        """Every text that somebody other than the template wrote."""
        for message in self.messages:
            yield message["content"]
            yield from _texts([message.get(key) for key in DATA])
        yield from _texts(self.tools)

    @cached_property
    def masks(self) -> dict[int, int]:
        """A mask for each character of the texts but white space, which templates trim."""
        used = {ord(char) for text in self.texts() for char in text}
        free = (code for codes in MASKS for code in codes if code not in used)
        visible = sorted(code for code in used if not chr(code).isspace())
        return dict(zip(visible, free, strict=False))

    def masked(self, which: Collection[int]) -> Chat:
        """The chat with the contents of some messages under masks, and all that tools say."""
        return self._with(
            [
                message["content"].translate(self.masks) if n in which else message["content"]
                for n, message in enumerate(self.messages)
            ]
        )

    def blank(self) -> Chat:
        """The chat with a character that means nothing in each content that is not empty."""
        contents = [message["content"] for message in self.messages]
        return self._with([BLANK if content.strip() else content for content in contents])

    def with_content(self, number: int, content: str) -> Chat:
        """The chat with another content in one message."""
        messages = list(self.messages)
        messages[number] = {**messages[number], "content": content}
        return replace(self, messages=messages)

    def _with(self, contents: Sequence[str]) -> Chat:
        """These contents, and masks over the data of messages and tools."""
        # What JSON escapes stays as it is, so that it is escaped.
        table = {c: mask for c, mask in self.masks.items() if c >= ord(" ") and chr(c) not in '"\\'}
        messages = [
            {**m, "content": content, **{key: _hidden(m[key], table) for key in DATA if key in m}}
            for m, content in zip(self.messages, contents, strict=True)
        ]
        return Chat(messages, [_hidden(tool, table) for tool in self.tools])


def _texts(value: Any) -> Iterator[str]:
    """The texts within JSON data, its keys among them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts([*value, *value.values()])
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


def _hidden(value: Any, table: Mapping[int, int]) -> Any:
    """JSON data with a mask over each of its texts that is none of `WORDS`."""
    if isinstance(value, str):
        return value if value in WORDS else value.translate(table)
    if isinstance(value, Mapping):
        return {_hidden(key, table): _hidden(item, table) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden(item, table) for item in value]
    return value
