"""Chat templates from a model's author render within limits and otherwise unchanged."""

from pathlib import Path
from typing import Any

import pytest
from support.chats import TEMPLATES, tokenizer_of
from support.shares import one_in
from support.tiny_gguf import write_gguf
from support.tiny_words import save_tiny
from support.tools.chats import TOOL_TEMPLATES
from transformers import AutoTokenizer
from typer.testing import CliRunner

from collab.cli.app import app
from collab.errors import ModelError
from collab.models.base import Call, Request
from collab.models.chat import prompt_ids
from collab.models.chat_template import render
from collab.models.tool_template import PROBE_TOOL, ToolTemplate, tool_template
from collab.models.tool_text import tool_schemas
from collab.records import Message, Sampling

LOOPS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
LIMIT = (
    r"the chat template of 'THEIR/tiny' handles more than 20,000,000 characters, where each step"
    r" counts as 50; use another model, or shorten the messages"
)
ENDLESS = {
    "loops": LOOPS,
    "a loop in a loop over messages": "{% for m in messages * 9999 %}" + LOOPS + "{% endfor %}",
    "a long text": "{{ 'x' * 10 ** 9 }}",
    "doubling": "{% set n = namespace(t='x') %}{% for i in range(60) %}{% set n.t = n.t ~ n.t %}"
    "{% endfor %}",
    "an indent": "{{ [1] | tojson(indent=10 ** 9) }}",
    "a text as an indent": "{{ range(9999) | list | tojson(indent='x' * 9999) }}",
    "separators": "{{ range(9999) | list | tojson(separators=('x' * 9999, 'x')) }}",
    "a time": "{% set x = strftime_now('%100000000d' ~ '%%' * 200000) %}",
    "a width": "{{ '%1000000000d' % 1 }}",
    "a dictionary": "{% for i in range(9999) %}{% set d = dict.fromkeys(range(99999)) %}"
    "{% endfor %}",
    "a macro": "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}"
    "{{ f(40) }}",
    "an iterator": "{% set m = range(99999) | map('string') %}{{ m | join('x' * 99999) }}",
    "many values": "{{ a }}" * 60_000,
    "replace by name": "{% set x = ('x' * 3000) | replace(new='y' * 100_000, old='x') %}",
    "generation": "{% for a in range(99999) %}{% generation %}" + "x" * 999 + "{% endgeneration %}"
    "{% endfor %}",
}


def request_of(*messages: Message) -> Request:
    call = Call(task="t", sample=0, turn=0, round=0, agent="a")
    return Request(call=call, messages=messages, sampling=Sampling(), seed=0)


@pytest.mark.parametrize("name", one_in(3, ENDLESS))
def test_template_beyond_the_limits_is_refused(name: str) -> None:
    tokenizer = tokenizer_of("bytes", "chatml", template=ENDLESS[name])
    with pytest.raises(ModelError, match=LIMIT):
        prompt_ids(request_of(Message(role="user", content="hi")), tokenizer, "THEIR/tiny")
    assert tool_template(tokenizer) is None


FAULTY = {
    "a division": "{{ 1 / 0 }}",
    "deep nesting": "{{ " + "(" * 3000 + ")" * 3000 + " }}",
    "many loops": "{% for a in b %}" * 25 + "{% endfor %}" * 25,
    "a long number": "{{ 10 ** 5000 }}",
    "a large number": "{{ 10.0 ** 400 }}",
    "half a character": "{{ '\\ud800' }}",
    "no syntax": "{{ 1 + }}",
    "recursion": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
}


@pytest.mark.parametrize("name", FAULTY)
def test_error_in_a_template_names_the_model(name: str) -> None:
    tokenizer = tokenizer_of("bytes", "chatml", template=FAULTY[name])
    with pytest.raises(ModelError, match="the chat template of 'THEIR/tiny' refuses the messages"):
        prompt_ids(request_of(Message(role="user", content="hi")), tokenizer, "THEIR/tiny")
    assert tool_template(tokenizer) is None


def test_internal_error_is_not_blamed_on_the_template(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise TypeError("a defect")

    monkeypatch.setattr(ToolTemplate, "convert_messages", broken)
    with pytest.raises(TypeError, match="a defect"):
        tool_template(tokenizer_of("bytes", "chatml"))


def test_a_long_message_is_rendered() -> None:
    tokenizer = tokenizer_of("bytes", "thinking")
    message = {"role": "assistant", "content": "x " * 1_000_000}
    assert len(render(tokenizer, [message], begin_answer=True)) > 2_000_000


def test_run_with_endless_template_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    save_tiny(theirs / "tiny", ["hi"], chat=LOOPS)
    (theirs / "words.jsonl").write_text('{"word": "hi"}\n')
    (theirs / "recipe.yaml").write_text(
        "team: {name: t, agents: {a: {prompt: 'Say {{ task.word }}.'}}}\n"
        "task: {name: w, kind: text, source: {path: words.jsonl},"
        " reward: {parts: {n: {use: nonempty}}}}\n"
        "model: {engine: transformers, name: tiny}\n"
    )
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path / "mine")
    result = CliRunner().invoke(app, ["run", str(theirs)])
    assert result.exit_code != 0
    [line] = [line for line in result.output.splitlines() if "handles more than" in line]
    assert "tiny' handles more than 20,000,000 characters" in line
    assert line.endswith("use another model, or shorten the messages")


def test_chat_template_of_a_gguf_file_is_limited_too(tmp_path: Path) -> None:
    write_gguf(tmp_path / "tiny.gguf", chat=LOOPS)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path, gguf_file="tiny.gguf")
    with pytest.raises(ModelError, match=LIMIT):
        prompt_ids(request_of(Message(role="user", content="hi")), tokenizer, "THEIR/tiny")


HABITS = {
    "a filter is true": "{% if messages | selectattr('role', 'equalto', 'x') %}yes{% endif %}",
    "a filter is spent": "{% set m = messages | map(attribute='role') %}"
    "{{ m | first }}{{ m | list }}{{ m | list }}",
    "reversed": "{% for m in messages | reverse %}{{ loop.index }}{{ m.content }}{% endfor %}",
    "loop controls": "{% for m in messages %}{% if loop.last %}{% break %}{% endif %}"
    "{% if m.role == 'user' %}{% continue %}{% endif %}{{ loop.length }}{{ m.role }}{% endfor %}",
    "namespace": "{% set n = namespace(seen=0) %}{% for m in messages %}"
    "{% set n.seen = n.seen + m.content | length %}{% endfor %}{{ n.seen }}",
    "generation": "{% for m in messages %}{% generation %}\n  {{ m.content }}\n{% endgeneration %}"
    "{% endfor %}",
    "json": "{{ tools | tojson }}{{ tools | tojson(indent=4, separators=(', ', ' : ')) }}"
    "{{ {'b': '<é>', 'a': none} | tojson(ensure_ascii=true, sort_keys=true) }}",
    "tokens": "{{ bos_token }}{{ eos_token }}{{ pad_token is defined }}{{ documents }}",
    "blocks": "  {% if true %}\n   a\n  {% endif %}\n{%- block b %} x {% endblock -%}\n\n",
    "macros": "{% macro f(m, t='-') %}{{ t }}{{ m.role | upper }}{{ caller() if caller }}"
    "{% endmacro %}{% for m in messages %}{% call f(m) %}!{% endcall %}{% endfor %}",
    "formats": "{{ '%s|%5d' % ('a', 3) }}{{ '{:>4}'.format(2) }}{{ 'a' ~ 1 ~ none }}{{ 7 // 2 }}",
    "dictionaries": "{{ dict(a=1) }}{% for k, v in messages[0].items() %}{{ k }}{{ v }}{% endfor %}"
    "{{ messages[0] | dictsort }}{{ messages[::-1][0].content }}{{ messages[0] | items | list }}",
}


WITH_TOOLS = {f"{name} with tools": text for name, text in TOOL_TEMPLATES.items()}
HONEST: dict[str, str] = {**HABITS, **TEMPLATES, **WITH_TOOLS}


@pytest.mark.parametrize("name", HONEST)
def test_harmless_template_renders_as_in_transformers(name: str) -> None:
    tokenizer = tokenizer_of("bytes", "chatml", template=HONEST[name])
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "be <kind> & brief\n"},
        {"role": "user", "content": " é twice 4? "},
        {"role": "assistant", "content": "<think>\nhm</think>\n\n8"},
        {"role": "user", "content": "again"},
    ]
    for tools in ([], tool_schemas([PROBE_TOOL])):
        for begins in (False, True):
            expected = tokenizer.apply_chat_template(
                messages, tools=tools or None, add_generation_prompt=begins, tokenize=False
            )
            assert render(tokenizer, messages, tools, begin_answer=begins) == expected


def test_none_in_a_message_is_left_out() -> None:
    """transformers also leaves it out, from version 5.23 on."""
    template = "{% for m in messages %}{{ m.name is defined }}{{ m['name'] }}{% endfor %}"
    tokenizer = tokenizer_of("bytes", "chatml", template=template)
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "4?", "name": None},
        {"role": "assistant", "content": "8", "name": "ann"},
    ]
    assert render(tokenizer, messages, [], begin_answer=False) == "FalseTrueann"


def test_empty_template_is_refused() -> None:
    tokenizer = tokenizer_of("bytes", "chatml", template="{# nothing #}")
    with pytest.raises(ModelError, match="the prompt for 'tiny' has no tokens; give the agent"):
        prompt_ids(request_of(Message(role="user", content="hi")), tokenizer, "tiny")


def test_a_template_prints_no_internal_objects() -> None:
    for source in ("{{ messages | map('length') }}", "{{ messages[0].items }}"):
        tokenizer = tokenizer_of("bytes", "chatml", template=source)
        with pytest.raises(ModelError, match="a template cannot print"):
            prompt_ids(request_of(Message(role="user", content="u")), tokenizer, "m")
