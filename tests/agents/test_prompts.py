"""Prompt templates."""

import pytest

from collab.agents import Template
from collab.errors import AgentError, RecipeError


def test_render() -> None:
    template = Template("{% for x in task.xs %}{{ x }}\n{% endfor %}", "here")
    assert template.render(task={"xs": [1, 2]}) == "1\n2"


def test_a_missing_field_names_the_fields_there_are() -> None:
    with pytest.raises(AgentError, match=r"here: .*'promt'.*fields: prompt, entry_point"):
        Template("{{ task.promt }}", "here").render(task={"prompt": "x", "entry_point": "f"})


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
    ],
)
def test_templates_are_sandboxed(attack: str) -> None:
    with pytest.raises(AgentError):
        Template(attack, "here").render(task={"prompt": "x"})
