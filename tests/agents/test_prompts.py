"""Prompt templates, and the halves of a code prompt."""

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from collab.agents import Template
from collab.agents.parsers import docstring, signature
from collab.errors import AgentError, RecipeError


def test_render() -> None:
    template = Template("{% for x in task.xs %}{{ x }}\n{% endfor %}", "here")
    assert template.render(task={"xs": [1, 2]}) == "1\n2"


@pytest.mark.parametrize("text", ["def f():\n   ", " ", "\n\n", "  a\n"])
def test_verbatim_template_keeps_its_whitespace(text: str) -> None:
    assert Template(text, "here", as_written=True).render() == text
    assert Template("{% if b %}{{ b }}{% endif %}\n  ", "", as_written=True).render(b=1) == "1\n  "


def test_a_null_field_is_not_printed() -> None:
    template = Template("{% if task.hint %}{{ task.hint }}{% endif %}Q: {{ task.prompt }}", "here")
    assert template.render(task={"prompt": "x", "hint": None}) == "Q: x"
    others = (
        "'Q: ' ~ task.prompt",
        "task.prompt | string",
        "task.prompt | replace('N', 'M')",
        "task.prompt | urlencode",
        "task.prompt | e",
        "'%s, %s' | format(task.hint, task.prompt)",
        "'Q: %s' % task.prompt",
        "'%s, %s' % (task.hint, task.prompt)",
    )
    for refused in (template, *[Template(f"{{{{ {text} }}}}", "here") for text in others]):
        with pytest.raises(AgentError, match=r"here: it prints a field that is null"):
            refused.render(task={"prompt": None, "hint": "h"})


def test_error_for_a_missing_field_lists_the_fields() -> None:
    with pytest.raises(AgentError, match=r"here: .*'promt'.*fields: prompt, entry_point"):
        Template("{{ task.promt }}", "here").render(task={"prompt": "x", "entry_point": "f"})


@pytest.mark.parametrize(
    ("source", "fields", "message"),
    [
        (
            "{{ others.plannr }}",
            {"others": {"planner": "", "coder": ""}},
            "others has no 'plannr' (did you mean 'planner'?); the fields of others: planner,"
            " coder",
        ),
        (
            "{{ others['plannr'] }}",
            {"others": {}},
            "others has no 'plannr': the protocol shows this agent no other answers",
        ),
        (
            "{% if task.cases %}{% endif %}",
            {"task": {"prompt": ""}, "_hidden": ("cases",)},
            "'cases' is a hidden field; no agent sees it; the task's fields: prompt",
        ),
        ("{{ tsk.prompt }}", {"task": {}, "turn": 0}, "'tsk' is undefined; known: task, turn"),
    ],
)
def test_error_for_an_unknown_name_lists_the_available_ones(
    source: str, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(AgentError) as caught:
        Template(source, "here").render(**fields)
    assert str(caught.value).startswith(f"here: {message}")


def test_field_may_have_any_name() -> None:
    fields = {"lacks": "a", "_lacks": "b", "hidden": "c"}
    assert Template("{{ task.lacks }}{{ task['_lacks'] }}", "here").render(task=fields) == "ab"


def test_an_agent_may_be_called_items() -> None:
    loop = Template("{% for name, text in others.items() %}{{ name }}={{ text }}{% endfor %}", "x")
    assert loop.render(others={"items": "1"}) == "items=1"
    assert (
        Template("{{ others['items'] }}{{ others.copy }}", "x").render(
            others={"items": "1", "copy": "2"}
        )
        == "12"
    )


def test_a_template_that_does_not_parse_says_where() -> None:
    with pytest.raises(RecipeError, match="here, line 2"):
        Template("a\n{{ x", "here")


@pytest.mark.parametrize(
    "attack",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ task.prompt.__init__.__globals__ }}",
        "{{ task.pop('prompt') }}",
        "{% include '/etc/passwd' %}",
        "{{ task._lacks.__globals__ }}",
    ],
)
def test_templates_are_sandboxed(attack: str) -> None:
    with pytest.raises(AgentError):
        Template(attack, "here").render(task={"prompt": "x"})


PRINTED = {
    "{{ task.items }}": r"call it: items\(\)",
    "{{ range }}": "cannot print",
    "{{ cycler }}": "cannot print",
    "{{ cycler(1) }}": "an object of type Cycler",
    "{{ self }}": "cannot print",
    "{% macro m() %}{% endmacro %}{{ m }}": r"call it: m\(\)",
    "{{ namespace(a=''.upper) }}": "cannot print",
    "{{ [{'a': ''.upper}] }}": "cannot print",
    "{{ ''.upper ~ '' }}": "cannot print",
    "{{ [''.upper] | join }}": "cannot print",
    "{{ [''.upper] | map('string') | first }}": "cannot print",
    "{{ ''.upper | pprint }}": "cannot print",
    "{{ 'x' | replace('x', ''.upper) }}": "cannot print",
    "{{ '%r' % [''.upper] }}": "cannot print",
    "{{ '%s' | format(''.upper) }}": "cannot print",
    "{{ '{!r}'.format(''.upper) }}": "cannot print",
    "{{ '{0.upper}'.format('') }}": "cannot print",
    "{{ '{a}'.format_map({'a': ''.upper}) }}": "cannot print",
}


@pytest.mark.parametrize("source", PRINTED)
def test_a_template_prints_no_internal_objects(source: str) -> None:
    with pytest.raises(AgentError, match=f"here: SecurityError: .*{PRINTED[source]}"):
        Template(source, "here").render(task={"prompt": "x"})


@pytest.mark.parametrize(
    "value",
    ["a", 1, 1.5, True, [1, None, ("a",)], {"a": [{"b": 2}]}, Decimal("1.5"), date(2026, 1, 2)],
)
def test_template_prints_data_as_str_does(value: object) -> None:
    fields = {"x": value}
    for source in ("{{ task.x }}", "{{ task.x ~ '' }}", "{{ task.x | string }}"):
        assert Template(source, "here").render(task=fields) == str(value)
    assert Template("{{ task }}", "here").render(task=fields) == str(fields)


PROMPT = (
    'import math\n\n\ndef given(x):\n    """Given."""\n    return x\n\n\n'
    'def area(r: float) -> float:\n    """ The area.\n    >>> area(0)\n    0.0\n    """\n'
)


def test_prompt_is_split_into_signature_and_docstring() -> None:
    assert signature(PROMPT).endswith("return x\n\n\ndef area(r: float) -> float:")
    assert docstring(PROMPT) == "The area.\n>>> area(0)\n0.0"
    assert signature("def f(x='ä'): 'On the same line.'") == "def f(x='ä'):"


@pytest.mark.parametrize("prompt", ["Write a poem.", "def f(x):\n    return x", "", "def f("])
def test_a_prompt_without_docstring_stays_whole(prompt: str) -> None:
    assert (signature(prompt), docstring(prompt)) == (prompt, "")


def test_signature_and_docstring_are_template_filters() -> None:
    template = Template("{{ task.prompt | signature }} # {{ task.prompt | docstring }}", "prompt")
    shown = template.render(task={"prompt": 'def f(x):\n    """Words."""\n'})
    assert shown == "def f(x): # Words."
