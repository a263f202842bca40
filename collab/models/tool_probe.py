"""Whether a chat template knows tools, found out by trying.

It must tell of a tool, of a call and of a result, and the call that it writes itself must be one
that can be read back: a model that learned another form would call in vain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

from jinja2 import TemplateError

from collab.models.masked import BLANK
from collab.models.tool_template import ToolTemplate, given_tools
from collab.models.tool_text import UnreadableCall, read_calls
from collab.records import Message, ToolCall, ToolSpec

PROBE = ToolSpec(
    name="probe_tool",
    description="Probes.",
    parameters={
        "type": "object",
        "properties": {"probed": {"type": "string", "description": "What to probe."}},
        "required": ["probed"],
    },
)
CALL = ToolCall(name=PROBE.name, arguments={"probed": f"first{BLANK}"})
SECOND = ToolCall(name=PROBE.name, arguments={"probed": "second"})
SAID, TOLD = "saidsaid", "toldtold"

_KNOWN: WeakKeyDictionary[Any, tuple[Any, ToolTemplate | None]] = WeakKeyDictionary()


def tool_template(tokenizer: Any) -> ToolTemplate | None:
    """What is known of the tokenizer's template; None where it knows no tools."""
    source = (tokenizer.chat_template, getattr(tokenizer, "response_template", None))
    if tokenizer not in _KNOWN or _KNOWN[tokenizer][0] != source:
        _KNOWN[tokenizer] = (source, _tried(tokenizer, source[1]))
    return _KNOWN[tokenizer][1]


def special_ids(tokenizer: Any) -> set[int]:
    """The tokens that are left out of a text for its reader."""
    return {i for i, token in tokenizer.added_tokens_decoder.items() if token.special}


def _tried(tokenizer: Any, responses: Any) -> ToolTemplate | None:
    if not tokenizer.chat_template:
        return None
    template = ToolTemplate(frozenset(), many=True, user_after_tool=True, responses=responses)
    user, said = Message(role="user", content="ask"), Message(role="assistant", content=SAID)
    call, both = _asking(CALL), _asking(CALL, SECOND)
    result = Message(role="tool", content=TOLD, answers=CALL)
    again = Message(role="user", content=SAID)

    def text(*messages: Message) -> str:
        return _rendered(tokenizer, template, [user, *messages])

    if PROBE.name not in text() or TOLD not in text(call, result) or SAID not in text(said):
        return None
    written = _written(text(), text(said), text(call))
    if not _is_read_back(tokenizer, template, written):
        return None
    ids = tokenizer(written, add_special_tokens=False)["input_ids"]
    special = special_ids(tokenizer) - {tokenizer.eos_token_id, tokenizer.unk_token_id}
    told = text(both, result, result)
    return replace(
        template,
        markers=frozenset(special.intersection(ids)),
        many=all(str(c.arguments["probed"]) in told for c in both.tool_calls),
        user_after_tool=SAID in text(call, result, again),
    )


def _asking(*calls: ToolCall) -> Message:
    return Message(role="assistant", content="", tool_calls=calls)


def _written(asked: str, answered: str, called: str) -> str:
    """What stands for the call, without what stands around every answer."""
    head, _, tail = answered.partition(SAID)
    opening = head.removeprefix(asked)
    return called.removeprefix(asked).removeprefix(opening).removesuffix(tail)


def _rendered(tokenizer: Any, template: ToolTemplate, messages: Sequence[Message]) -> str:
    """The text of a chat that only looks how the template writes; empty where it refuses."""
    try:
        text: str = tokenizer.apply_chat_template(
            template.messages(messages), tools=given_tools([PROBE]), tokenize=False
        )
    except (TemplateError, TypeError, ValueError, KeyError):
        return ""
    return text


def _is_read_back(tokenizer: Any, template: ToolTemplate, written: str) -> bool:
    if template.responses is not None:
        return template.read(tokenizer, written, (), [PROBE]) == (CALL,)
    try:
        return read_calls(written, [PROBE.name]) == (CALL,)
    except UnreadableCall:
        return False
