"""The halves of a code prompt."""

import pytest

from collab.agents.parsers import docstring, signature
from collab.agents.prompts import Template

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
