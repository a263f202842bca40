"""Converts messages and tools for a chat template with tools, and finds calls in its responses.

Calls are parsed by the tokenizer's `response_template` if it has one, otherwise by the forms of
`collab.models.tool_text`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

from jinja2 import TemplateError

from collab.models.chat_template import TemplateItem, render
from collab.models.controls import BLANK
from collab.models.response_patterns import limited
from collab.models.tool_text import UnreadableCall, before_calls, read_calls
from collab.records import Message, ToolCall, ToolSpec
from collab.trust.template_costs import Overrun

_UNFIT = (ValueError, KeyError, TypeError, re.error, RecursionError, TimeoutError)
"""Errors for a response that is not of the form of its template, or for a faulty template."""


@dataclass(frozen=True)
class ToolTemplate:
    """The form in which a chat template renders tool calls and their results."""

    markers: frozenset[int]
    """Special tokens that its model uses to begin and end a call."""
    many: bool
    """True if one message may hold several calls."""
    user_after_tool: bool
    """True if a user message may follow a tool message."""
    responses: Any = None
    """The tokenizer's `response_template`, by which transformers parses a response."""

    def messages(self, messages: Sequence[Message]) -> list[TemplateItem]:
        """Return messages for the template, with tool calls and results in its own fields."""
        given: list[TemplateItem] = []
        numbers = iter(range(1, 100_000))
        waiting: list[TemplateItem] = []  # calls without a result so far
        later: list[TemplateItem] = []  # calls to write after the earlier ones have results
        for message in messages:
            if message.role == "tool":
                if not waiting and later:
                    waiting = [later.pop(0)]
                    given.append({"role": "assistant", "content": "", "tool_calls": list(waiting)})
                given.append(_result(message, waiting.pop(0) if waiting else None))
            elif message.tool_calls:
                calls = [_call_field(call, next(numbers)) for call in message.tool_calls]
                waiting, later = (calls, []) if self.many else (calls[:1], calls[1:])
                content = self._before_calls(message.content)
                given.append({"role": "assistant", "content": content, "tool_calls": list(waiting)})
            elif (
                message.role == "user"
                and given
                and given[-1]["role"] == "tool"
                and not self.user_after_tool
            ):
                given[-1]["content"] += f"\n\n{message.content}"
            else:
                given.append({"role": message.role, "content": message.content})
        return given

    def read(
        self, tokenizer: Any, text: str, prompt: Sequence[int], tools: Sequence[ToolSpec]
    ) -> tuple[ToolCall, ...]:
        """Return the calls that transformers finds in a response, or () if the tokenizer cannot
        parse it."""
        if self.responses is None:
            return ()
        try:
            with limited():
                parsed = tokenizer.parse_response(
                    text, prefix=list(prompt), tools=given_tools(tools)
                )
            called = [call["function"] for call in parsed.get("tool_calls") or ()]
            return tuple(ToolCall(name=c["name"], arguments=c["arguments"]) for c in called)
        except _UNFIT:  # not in this format
            return ()

    def _before_calls(self, content: str) -> str:
        if self.responses is None:
            return before_calls(content)
        from transformers.utils.chat_parsing import parse_response

        try:
            with limited():
                parsed = parse_response(content, self.responses, prefix="")
            return str(parsed.get("content") or "")
        except _UNFIT:
            return content


def given_tools(tools: Sequence[ToolSpec]) -> list[TemplateItem]:
    """Return the tools as JSON schemas, the form that chat templates take."""
    return [{"type": "function", "function": tool.model_dump()} for tool in tools]


def _call_field(call: ToolCall, number: int) -> TemplateItem:
    function = {"name": call.name, "arguments": call.arguments}
    return {
        "id": f"call{number:05}",
        "type": "function",
        "function": function,
    }  # Mistral: 9 letters


def _result(message: Message, call: TemplateItem | None) -> TemplateItem:
    name = message.answers.name if message.answers else "tool"
    given = {"role": "tool", "name": name, "content": message.content}
    return {**given, "tool_call_id": call["id"]} if call else given


PROBE = ToolSpec(
    name="probe_tool",
    description="Probes.",
    parameters={
        "type": "object",
        "properties": {"probed": {"type": "string", "description": "What to probe."}},
        "required": ["probed"],
    },
)
PROBE_CALL = ToolCall(name=PROBE.name, arguments={"probed": f"first{BLANK}"})
SECOND = ToolCall(name=PROBE.name, arguments={"probed": "second"})
SAID, TOLD = "saidsaid", "toldtold"

_KNOWN: WeakKeyDictionary[Any, tuple[Any, ToolTemplate | None]] = WeakKeyDictionary()


def tool_template(tokenizer: Any) -> ToolTemplate | None:
    """Return the properties of the tokenizer's template, or None if it does not support tools."""
    source = (tokenizer.chat_template, getattr(tokenizer, "response_template", None))
    if tokenizer not in _KNOWN or _KNOWN[tokenizer][0] != source:
        _KNOWN[tokenizer] = (source, _tried(tokenizer, source[1]))
    return _KNOWN[tokenizer][1]


def special_ids(tokenizer: Any) -> set[int]:
    """Return the ids of special tokens that are removed from a decoded text."""
    return {i for i, token in tokenizer.added_tokens_decoder.items() if token.special}


def _tried(tokenizer: Any, responses: Any) -> ToolTemplate | None:
    if not tokenizer.chat_template:
        return None
    template = ToolTemplate(frozenset(), many=True, user_after_tool=True, responses=responses)
    user, answer = Message(role="user", content="ask"), Message(role="assistant", content=SAID)
    call, both = _asking(PROBE_CALL), _asking(PROBE_CALL, SECOND)
    result = Message(role="tool", content=TOLD, answers=PROBE_CALL)
    again = Message(role="user", content=SAID)

    def text(*messages: Message) -> str:
        return _rendered(tokenizer, template, [user, *messages])

    if PROBE.name not in text() or TOLD not in text(call, result) or SAID not in text(answer):
        return None
    written = _written(text(), text(answer), text(call))
    if not _is_read_back(tokenizer, template, written):
        return None
    ids = tokenizer(written, add_special_tokens=False)["input_ids"]
    special = special_ids(tokenizer) - {tokenizer.eos_token_id, tokenizer.unk_token_id}
    rendered = text(both, result, result)
    return replace(
        template,
        markers=frozenset(special.intersection(ids)),
        many=all(str(c.arguments["probed"]) in rendered for c in both.tool_calls),
        user_after_tool=SAID in text(call, result, again),
    )


def _asking(*calls: ToolCall) -> Message:
    return Message(role="assistant", content="", tool_calls=calls)


def _written(question: str, answered: str, called: str) -> str:
    """Return the text of the call, without the text around every answer."""
    head, _, tail = answered.partition(SAID)
    opening = head.removeprefix(question)
    return called.removeprefix(question).removeprefix(opening).removesuffix(tail)


def _rendered(tokenizer: Any, template: ToolTemplate, messages: Sequence[Message]) -> str:
    """Render a chat only to see the template's format, or return "" if the template refuses."""
    given = template.messages(messages)
    try:
        return render(tokenizer, given, given_tools([PROBE]), begin_answer=False)
    except (TemplateError, Overrun):
        return ""


def _is_read_back(tokenizer: Any, template: ToolTemplate, written: str) -> bool:
    if template.responses is not None:
        return template.read(tokenizer, written, (), [PROBE]) == (PROBE_CALL,)
    try:
        return read_calls(written, [PROBE.name]) == (PROBE_CALL,)
    except UnreadableCall:
        return False
