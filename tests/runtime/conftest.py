"""A small project: two agents that name words, and a reward that compares them."""

from pathlib import Path

import pytest
from support.word_project import make_project

TEAM = """\
description: Two agents each say a word.
agents:
  a: {role: "You are {{ agent }}.", prompt: "Say {{ task.word }}.", revise: "{{ feedback }} Again."}
  b:
    prompt: >-
      Say {{ task.word }}, {{ agents | join(' and ') }}.
      {%- for n in others %} {{ n }} said {{ others[n] }}.{% endfor %}
"""


@pytest.fixture
def project(here: Path) -> Path:
    make_project(here, TEAM, n_words=20)
    return here
