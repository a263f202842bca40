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
from collab.models.control_tokens import BLANK
from collab.models.response_patterns import parsing_limits
from collab.models.tool_text import UnreadableCall, read_calls, text_before_calls, tool_schemas
from collab.records import Message, ToolCall, ToolSpec
from collab.trust.template_costs import Overrun

_PARSE_ERRORS = (ValueError, KeyError, TypeError, re.error, RecursionError, TimeoutError)
"""Errors for a response that is not of the form of its template, or for a faulty template."""


@dataclass(frozen=True)
class ToolTemplate:
    """The form in which a chat template renders tool calls and their results."""

    markers: frozenset[int]
    """Special tokens that its model uses to begin and end a call."""
    parallel_calls: bool
    """True if one message may hold several calls."""
    user_after_tool: bool
    """True if a user message may follow a tool message."""
    response_template: Any = None
    """The tokenizer's `response_template`, by which transformers parses a response."""

    def convert_messages(self, messages: Sequence[Message]) -> list[TemplateItem]:
        """Return messages for the template, with tool calls and results in its own fields."""
        items: list[TemplateItem] = []
        numbers = iter(range(1, 100_000))
        pending: list[TemplateItem] = []  # calls without a result so far
        deferred: list[TemplateItem] = []  # calls to write after the earlier ones have results
        for message in messages:
            if message.role == "tool":
                if not pending and deferred:
                    pending = [deferred.pop(0)]
                    items.append({"role": "assistant", "content": "", "tool_calls": list(pending)})
                items.append(_template_result(message, pending.pop(0) if pending else None))
            elif message.tool_calls:
                calls = [_template_call(call, next(numbers)) for call in message.tool_calls]
                pending, deferred = (calls, []) if self.parallel_calls else (calls[:1], calls[1:])
                content = self._text_before_calls(message.content)
                items.append({"role": "assistant", "content": content, "tool_calls": list(pending)})
            elif (
                message.role == "user"
                and items
                and items[-1]["role"] == "tool"
                and not self.user_after_tool
            ):
                items[-1]["content"] += f"\n\n{message.content}"
            else:
                items.append({"role": message.role, "content": message.content})
        return items

    def parse_calls(
        self, tokenizer: Any, text: str, prompt: Sequence[int], tools: Sequence[ToolSpec]
    ) -> tuple[ToolCall, ...]:
        """Return the calls that transformers finds in a response, or () if the tokenizer cannot
        parse it."""
        if self.response_template is None:
            return ()
        try:
            with parsing_limits():
                parsed = tokenizer.parse_response(
                    text, prefix=list(prompt), tools=tool_schemas(tools)
                )
            called = [call["function"] for call in parsed.get("tool_calls") or ()]
            return tuple(ToolCall(name=c["name"], arguments=c["arguments"]) for c in called)
        except _PARSE_ERRORS:  # not in this format
            return ()

    def _text_before_calls(self, content: str) -> str:
        if self.response_template is None:
            return text_before_calls(content)
        from transformers.utils.chat_parsing import parse_response

        try:
            with parsing_limits():
                parsed = parse_response(content, self.response_template, prefix="")
            return str(parsed.get("content") or "")
        except _PARSE_ERRORS:
            return content


def _template_call(call: ToolCall, number: int) -> TemplateItem:
    function = {"name": call.name, "arguments": call.arguments}
    # Mistral's ids have nine characters.
    return {"id": f"call{number:05}", "type": "function", "function": function}


def _template_result(message: Message, call: TemplateItem | None) -> TemplateItem:
    name = message.answers.name if message.answers else "tool"
    result = {"role": "tool", "name": name, "content": message.content}
    return {**result, "tool_call_id": call["id"]} if call else result


PROBE_TOOL = ToolSpec(
    name="probe_tool",
    description="Probes.",
    parameters={
        "type": "object",
        "properties": {"probed": {"type": "string", "description": "What to probe."}},
        "required": ["probed"],
    },
)
PROBE_CALL = ToolCall(name=PROBE_TOOL.name, arguments={"probed": f"first{BLANK}"})
SECOND_CALL = ToolCall(name=PROBE_TOOL.name, arguments={"probed": "second"})
ANSWER, RESULT = "saidsaid", "toldtold"

_TEMPLATES: WeakKeyDictionary[Any, tuple[Any, ToolTemplate | None]] = WeakKeyDictionary()


def tool_template(tokenizer: Any) -> ToolTemplate | None:
    """Return the properties of the tokenizer's template, or None if it does not support tools."""
    source = (tokenizer.chat_template, getattr(tokenizer, "response_template", None))
    if tokenizer not in _TEMPLATES or _TEMPLATES[tokenizer][0] != source:
        _TEMPLATES[tokenizer] = (source, _probe_template(tokenizer, source[1]))
    return _TEMPLATES[tokenizer][1]


def special_ids(tokenizer: Any) -> set[int]:
    """Return the ids of special tokens that are removed from a decoded text."""
    return {i for i, token in tokenizer.added_tokens_decoder.items() if token.special}


def _probe_template(tokenizer: Any, response_template: Any) -> ToolTemplate | None:
    if not tokenizer.chat_template:
        return None
    template = ToolTemplate(
        frozenset(), parallel_calls=True, user_after_tool=True, response_template=response_template
    )
    user, answer = Message(role="user", content="ask"), Message(role="assistant", content=ANSWER)
    call, both = _call_message(PROBE_CALL), _call_message(PROBE_CALL, SECOND_CALL)
    result = Message(role="tool", content=RESULT, answers=PROBE_CALL)
    again = Message(role="user", content=ANSWER)

    def text(*messages: Message) -> str:
        return _render_probe(tokenizer, template, [user, *messages])

    if (
        PROBE_TOOL.name not in text()
        or RESULT not in text(call, result)
        or ANSWER not in text(answer)
    ):
        return None
    written = _call_text(text(), text(answer), text(call))
    if not _is_read_back(tokenizer, template, written):
        return None
    ids = tokenizer(written, add_special_tokens=False)["input_ids"]
    special = special_ids(tokenizer) - {tokenizer.eos_token_id, tokenizer.unk_token_id}
    rendered = text(both, result, result)
    return replace(
        template,
        markers=frozenset(special.intersection(ids)),
        parallel_calls=all(str(c.arguments["probed"]) in rendered for c in both.tool_calls),
        user_after_tool=ANSWER in text(call, result, again),
    )


def _call_message(*calls: ToolCall) -> Message:
    return Message(role="assistant", content="", tool_calls=calls)


def _call_text(question: str, answered: str, called: str) -> str:
    """Return the text of the call, without the text around every answer."""
    head, _, tail = answered.partition(ANSWER)
    opening = head.removeprefix(question)
    return called.removeprefix(question).removeprefix(opening).removesuffix(tail)


def _render_probe(tokenizer: Any, template: ToolTemplate, messages: Sequence[Message]) -> str:
    """Render a chat only to see the template's format, or return "" if the template refuses."""
    items = template.convert_messages(messages)
    try:
        return render(tokenizer, items, tool_schemas([PROBE_TOOL]), begin_answer=False)
    except (TemplateError, Overrun):
        return ""


def _is_read_back(tokenizer: Any, template: ToolTemplate, written: str) -> bool:
    if template.response_template is not None:
        return template.parse_calls(tokenizer, written, (), [PROBE_TOOL]) == (PROBE_CALL,)
    try:
        return read_calls(written, [PROBE_TOOL.name]) == (PROBE_CALL,)
    except UnreadableCall:
        return False
