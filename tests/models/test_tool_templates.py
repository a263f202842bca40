"""Tools in chat templates that support them, and as text in others."""

import json
import sys
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.chats import TEMPLATES, tokenizer_of
from support.tools.chats import TOOL_TEMPLATES, tool_tokenizer

from collab.errors import ModelError
from collab.models import response_patterns
from collab.models.base import Call, Request
from collab.models.chat import parse_answer, prompt_ids
from collab.models.tool_template import tool_template
from collab.models.tool_text import UnreadableCall, read_calls, text_before_calls
from collab.records import Message, Sampling, ToolCall, ToolSpec

FAMILIES = list(TOOL_TEMPLATES)
DOUBLE = ToolSpec(
    name="double",
    description="Twice a number.",
    parameters={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
)
FOUR, FIVE = (ToolCall(name="double", arguments={"n": n}) for n in (4, 5))


def request_of(*messages: Message, tools: tuple[ToolSpec, ...] = (DOUBLE,)) -> Request:
    call = Call(task="t", sample=0, turn=0, round=0, agent="a")
    return Request(call=call, messages=messages, tools=tools)


def user(text: str) -> Message:
    return Message(role="user", content=text)


def tool_call_message(*calls: ToolCall, text: str = "") -> Message:
    return Message(role="assistant", content=text, tool_calls=calls)


def tool_result(text: str, call: ToolCall = FOUR) -> Message:
    return Message(role="tool", content=text, answers=call)


def read(tokenizer: Any, *messages: Message, tools: tuple[ToolSpec, ...] = (DOUBLE,)) -> str:
    """Return the model's input as text."""
    text: str = tokenizer.decode(prompt_ids(request_of(*messages, tools=tools), tokenizer, "m"))
    return text


def controls(tokenizer: Any, ids: list[int]) -> list[int]:
    return [i for i in ids if str(tokenizer.added_tokens_decoder.get(i, "")).strip()]


@pytest.mark.parametrize("family", TEMPLATES)
def test_tools_are_described_in_text_without_template_support(family: str) -> None:
    tokenizer = tokenizer_of("bytes", family)
    assert tool_template(tokenizer) is None
    assert "```tool" in read(tokenizer, user("twice 4?"))


@pytest.mark.parametrize(
    "broken",
    [
        TOOL_TEMPLATES["hermes"].replace("message.role == 'tool'", "message.role == 'never'"),
        TOOL_TEMPLATES["hermes"].replace("tool | tojson", "'a tool'"),
        TOOL_TEMPLATES["hermes"].replace('{"name": "\' + call', "{called: \"' + call"),
    ],
    ids=["no results", "no tools", "calls in a custom format"],
)
def test_incomplete_tool_template_is_not_used(broken: str) -> None:
    assert tool_template(tokenizer_of("bytes", "chatml", template=broken)) is None


@pytest.mark.parametrize("family", FAMILIES)
def test_template_renders_tools_calls_and_results(family: str) -> None:
    tokenizer = tool_tokenizer(family)
    messages = (user("twice 4?"), tool_call_message(FOUR, text="the call"), tool_result("8"))
    calls = [{"id": "call00001", "type": "function", "function": FOUR.model_dump(exclude={"id"})}]
    given = [
        {"role": "user", "content": "twice 4?"},
        {"role": "assistant", "content": "the call", "tool_calls": calls},
        {"role": "tool", "name": "double", "content": "8", "tool_call_id": "call00001"},
    ]
    assert prompt_ids(request_of(*messages), tokenizer, "m") == tokenizer.apply_chat_template(
        given,
        tools=[{"type": "function", "function": DOUBLE.model_dump()}],
        add_generation_prompt=True,
        return_dict=False,
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_calls_written_by_the_template_are_parsed(family: str) -> None:
    """A call in the history equals a generated one, token for token."""
    tokenizer = tool_tokenizer(family)
    before, after = (
        read(tokenizer, user("twice 4?"), *m)
        for m in ([], [tool_call_message(FOUR), tool_result("8")])
    )
    written = after[len(before) :].partition("</s>" if family == "mistral" else "<|")[0]
    ids = tokenizer(written, add_special_tokens=False)["input_ids"]
    request = request_of(user("twice 4?"))
    text, calls = parse_answer(request, (), [*ids, tokenizer.eos_token_id], tokenizer)
    assert calls == ()
    [call] = read_calls(text, ["double"])
    assert (call.name, call.arguments) == ("double", {"n": 4})
    again = tool_call_message(call, text=text)
    assert read(tokenizer, user("twice 4?"), again, tool_result("8")) == after


@pytest.mark.parametrize("family", FAMILIES)
def test_template_renders_several_calls_followed_by_a_user_message(family: str) -> None:
    """Llama's template allows one call per message; Mistral's allows no user right after a tool."""
    text = read(
        tool_tokenizer(family),
        Message(role="system", content="Be brief."),
        user("twice 4 and 5?"),
        tool_call_message(FOUR, FIVE),
        tool_result("8", FOUR),
        tool_result("10", FIVE),
        user("Answer now."),
    )
    places = [
        text.index(part) for part in ("Twice a number", '{"n": 4}', '{"n": 5}', "Answer now.")
    ]
    assert places == sorted(places)
    assert text.index('{"n": 4}') < text.index("8") < text.index("10") < text.index("Answer")


EVIL = ["<|im_end|>", "<|im_start|>", "</s>", "[INST]", "[TOOL_CALLS]", "<tool_call>", "<|end|>"]
PIECES = [*EVIL, *(e[:3] for e in EVIL), *(e[3:] for e in EVIL), "x", '"', "\\", "\n", " ", "é"]
TEXT = st.lists(st.sampled_from(PIECES), max_size=4).map("".join)


@pytest.mark.parametrize("family", FAMILIES)
@given(texts=st.tuples(*[TEXT] * 6))
def test_tool_text_contains_no_control_tokens(family: str, texts: tuple[str, ...]) -> None:
    tokenizer = tool_tokenizer(family)

    def chat(*texts: str) -> list[int]:
        task, doc, key, value, reply, result = texts
        properties = {f"n{key}": {"type": "string", "description": doc, "enum": [value]}}
        tool = ToolSpec(name="f", description=doc, parameters={"properties": properties})
        call = ToolCall(name="f", arguments={f"n{key}": value, "m": [1, {"deep": value}]})
        messages = (user(task), tool_call_message(call, text=reply), tool_result(result, call))
        return prompt_ids(request_of(*messages, tools=(tool,)), tokenizer, "m")

    ids = chat(*texts)
    harmless = chat(*("x" if text.strip() else "" for text in texts))
    assert controls(tokenizer, ids) == controls(tokenizer, harmless)
    written = tokenizer.decode(ids)
    for text in (texts[1], texts[2], texts[3]):
        assert json.dumps(text, ensure_ascii=False)[1:-1] in written


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ('[TOOL_CALLS][{"name": "double", "arguments": {"n": 4}, "id": "a1"}]', (FOUR,)),
        ('So [TOOL_CALLS] double{"n": 4}[TOOL_CALLS]double[ARGS]{"n": 5}', (FOUR, FIVE)),
        ('[TOOL_CALLS]double[CALL_ID]a1[ARGS]{"n": 4}', (FOUR,)),
        ('{"name": "double", "parameters": {"n": 4}}', (FOUR,)),
        ('<|python_tag|>{"type": "function", "name": "double", "parameters": {"n": 4}}', (FOUR,)),
        (
            '{"name": "double", "parameters": {"n": 4}}; {"name": "double", "arguments": {"n": 5}}',
            (FOUR, FIVE),
        ),
        ('<think>hm</think>\n{"name": "double", "parameters": {"n": 4}}\n', (FOUR,)),
        ('{"name": "Bob", "parameters": {"n": 4}}', ()),
        ('I call {"name": "double", "parameters": {"n": 4}}', ()),
        ('{"name": "double", "age": 4}', ()),
    ],
)
def test_call_formats_are_parsed(text: str, calls: tuple[ToolCall, ...]) -> None:
    assert read_calls(text, ["double"]) == calls


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "double", "parameters": {"n": 4}} and more',
        '{"name": "double", "parameters": {"n": ',
        '{"name": "double", "parameters": [4]}',
        '[TOOL_CALLS][{"name": "double"',
        "[TOOL_CALLS]",
        "[TOOL_CALLS]double",
        "[TOOL_CALLS][3]",
    ],
)
def test_malformed_call_is_unreadable(text: str) -> None:
    with pytest.raises(UnreadableCall):
        read_calls(text, ["double"])


@pytest.mark.parametrize(
    ("text", "before"),
    [
        ("plain words", "plain words"),
        ("So\n```tool\n{}\n```", "So"),
        ("<think>a <tool_call></think>b <tool_call>{}", "<think>a <tool_call></think>b"),
        ('[TOOL_CALLS][{"name": "f"}]', ""),
        ('{"name": "f", "parameters": {}}', ""),
    ],
)
def test_text_before_a_call_is_extracted(text: str, before: str) -> None:
    assert text_before_calls(text) == before


def test_special_tokens_are_kept_only_when_they_mark_a_call() -> None:
    tokenizer = tool_tokenizer("mistral")
    marks = tokenizer.convert_tokens_to_ids(["[TOOL_CALLS]", "[INST]", "</s>"])
    assert parse_answer(request_of(user("u")), (), marks, tokenizer) == ("[TOOL_CALLS]", ())
    assert parse_answer(request_of(user("u"), tools=()), (), marks, tokenizer) == ("", ())


def test_a_stop_string_ends_a_call_too() -> None:
    tokenizer = tool_tokenizer("hermes")
    request = request_of(user("u")).model_copy(update={"sampling": Sampling(stop=("}",))})
    ids = tokenizer('<tool_call>{"name": "f"}', add_special_tokens=False)["input_ids"]
    assert parse_answer(request, (), ids, tokenizer)[0] == '<tool_call>{"name": "f"'


XML = TOOL_TEMPLATES["hermes"].replace(
    """{{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' }}
{{- call.function.arguments | tojson }}{{ '}\\n</tool_call>' }}""",
    """{{- '\\n<tool_call>\\n<function=' + call.function.name + '>' }}
{%- for key, value in call.function.arguments.items() %}
{{- '<parameter=' + key + '>' + value + '</parameter>' }}{% endfor %}
{{- '</function>\\n</tool_call>' }}""",
)
TAGS = r"<parameter=(?P<key>[^>\n]+)>\s*(?P<value>.*?)\s*</parameter>"
CALLS = {
    "open_pattern": r"\s*<tool_call>\s*<function=(?P<name>[^>\n]+)>",
    "close_pattern": r"</function>\s*</tool_call>",
    "repeats": True,
    "content": "xml-inline",
    "content_args": {"tag_pattern": TAGS},
    "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}},
}
RESPONSES = {
    "start_anchor": "<|im_start|>assistant\n",
    "fields": {
        "tool_calls": CALLS,
        "content": {"close_pattern": r"\s*<\|im_end\|>", "content": "text"},
    },
}


def test_transformers_parses_calls_with_a_response_template() -> None:
    """Qwen 3.5 writes calls in tags; the tokenizer's `response_template` describes them."""
    tokenizer = tokenizer_of("bytes", "chatml", template=XML)
    assert tool_template(tokenizer) is None
    tokenizer.response_template = RESPONSES
    assert tool_template(tokenizer) is not None
    request = request_of(user("twice 4?"))
    prompt = prompt_ids(request, tokenizer, "m")
    response = (
        "So:\n<tool_call>\n<function=double><parameter=n>4</parameter></function>\n</tool_call>"
    )
    ids = tokenizer(f"{response}<|im_end|>", add_special_tokens=False)["input_ids"]
    text, calls = parse_answer(request, prompt, ids, tokenizer)
    assert (text, calls) == (response, (FOUR,))
    word = ToolCall(name="double", arguments={"n": "four"})
    again = read(
        tokenizer, user("twice?"), tool_call_message(word, text=text), tool_result("8", word)
    )
    assert again.count("So:") == 1
    assert again.count("<function=double>") == 1
    broken = tokenizer("<tool_call>\n<function=", add_special_tokens=False)["input_ids"]
    assert parse_answer(request, prompt, broken, tokenizer) == ("<tool_call>\n<function=", ())


@pytest.mark.parametrize("pattern", ["(?:a|aa|b)+(?:a|aa|c)+[xy]", "(?=a)"])
def test_response_template_with_endless_matching_supports_no_tools(
    pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One pattern backtracks forever; the other matches the same place forever."""
    monkeypatch.setattr(response_patterns, "PARSE_SECONDS", 0.2)
    tokenizer = tokenizer_of("bytes", "chatml", template=XML.replace("<tool_call>", "a" * 80 + "!"))
    field = {"open_pattern": pattern, "close_pattern": pattern, "content": "text"}
    tokenizer.response_template = RESPONSES | {"fields": {"content": field, "tool_calls": CALLS}}
    began = time.monotonic()
    assert tool_template(tokenizer) is None
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    "pattern",
    [
        "(?:(?:a{9}){99}){999}",
        "(?:" * 20 + "a" + ")+" * 20,
        "(?:" * 300 + "a" + ")" * 300,
        "(?V1)" + "[" * 300 + "a" + "]" * 300,
        "(?x)a{99 999 9}",
        "(?:" * 20 + "a" + ")(?#)+" * 20,
        "((?1)(?1)|a)*",
        "a" * 2_000,
    ],
)
@pytest.mark.parametrize("place", ["open_pattern", "tag_pattern"])
def test_a_large_regular_expression_is_not_compiled(pattern: str, place: str) -> None:
    tokenizer = tokenizer_of("bytes", "chatml", template=XML)
    tags = CALLS | {"content_args": {"tag_pattern": rf"{TAGS}|{pattern}"}}
    field = {"open_pattern": pattern, "close": "a", "content": "text"}
    fields = {"tool_calls": tags} if place == "tag_pattern" else {"x": field, "tool_calls": CALLS}
    tokenizer.response_template = RESPONSES | {"fields": fields}
    assert tool_template(tokenizer) is None


def test_deeply_nested_response_template_supports_no_tools() -> None:
    tokenizer = tokenizer_of("bytes", "chatml", template=XML)
    deep: list[Any] = []
    for _ in range(sys.getrecursionlimit()):
        deep = [deep]
    field = {"open": "a", "close": "b", "content": "text", "transform": deep}
    tokenizer.response_template = RESPONSES | {"fields": {"x": field, "tool_calls": CALLS}}
    assert tool_template(tokenizer) is None


def test_refusal_by_the_template_is_reported() -> None:
    strict = TOOL_TEMPLATES["llama"]
    with pytest.raises(ModelError, match="no first user message"):
        read(
            tokenizer_of("bytes", "chatml", template=strict),
            Message(role="system", content="only a system message"),
        )
