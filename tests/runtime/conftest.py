"""A small project of its own: two agents who name words, and a reward that compares them."""

import json
from pathlib import Path

import pytest

TEAM = """\
description: Two agents each say a word.
agents:
  a: {role: "You are {{ agent }}.", prompt: "Say {{ task.word }}.", revise: "{{ feedback }} Again."}
  b:
    prompt: >-
      Say {{ task.word }}, {{ agents | join(' and ') }}.
      {%- for n in others %} {{ n }} said {{ others[n] }}.{% endfor %}
"""
TASK = """\
kind: text
source: {path: words.jsonl}
hidden: [answer]
reward:
  parts:
    right: {use: "parts.py:right"}
"""
PARTS = """\
def right(context):
    answer = context.problem.hidden["answer"]
    said = sum(artefact == answer for artefact in context.artefacts.values())
    return said / len(context.artefacts), f"{said} of {len(context.artefacts)} said {answer}"
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for folder in ("agents", "tasks"):
        (tmp_path / folder).mkdir()
    (tmp_path / "agents" / "pair.yaml").write_text(TEAM)
    (tmp_path / "tasks" / "words.yaml").write_text(TASK)
    rows = [{"task_id": str(n), "word": f"w{n}", "answer": f"Say w{n}."} for n in range(20)]
    (tmp_path / "tasks" / "words.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    (tmp_path / "parts.py").write_text(PARTS)
    monkeypatch.chdir(tmp_path)
    return tmp_path
