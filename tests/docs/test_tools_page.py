"""The tool and team of docs/tools.md, and the shipped team with a tool."""

import json
import re
from pathlib import Path

import pytest
from support.blocks import DOCS, blocks

import collab

TASK = """\
description: Words to find a rhyme for.
kind: text
source: {path: words.jsonl}
reward: {parts: {rhymes: {use: contains, options: {phrases: [light]}}}}
"""
SOLUTION = "def strlen(string: str) -> int:\n    return len(string)"


@pytest.fixture
def project(here: Path) -> Path:
    """A suite of one word, and an empty folder for agents."""
    (here / "agents").mkdir()
    (here / "tasks").mkdir()
    (here / "tasks" / "words.yaml").write_text(TASK)
    (here / "words.jsonl").write_text('{"task_id": "0", "word": "night"}\n')
    return here


def test_the_tool_of_the_page_is_called(project: Path) -> None:
    team, _, harness = blocks("tools.md", "yaml")
    (project / "agents" / "rhymes.yaml").write_text(team + "    " + harness)
    (project / "lookup.py").write_text(blocks("tools.md", "python")[0])
    text = (DOCS / "tools.md").read_text()
    [call] = re.findall(r"^    ```tool\n.*?^    ```", text, re.MULTILINE | re.DOTALL)
    (project / "script.yaml").write_text(json.dumps([call.replace("    ", ""), "light"]))
    episode = collab.load("rhymes", model="scripted:script.yaml").run("words/0").episode
    assert episode.failure is None
    assert [m.content for m in episode.decisions("writer")[1].observation] == ['["light"]']
    assert episode.turns[0].joint.strip() == "light"


def test_the_server_of_the_page_is_called(project: Path) -> None:
    team, tool, _ = blocks("tools.md", "yaml")
    named = team.replace('["lookup.py:look_up", python]', f"[{tool.removeprefix('- ').strip()}]")
    assert "server.py" in named
    (project / "agents" / "rhymes.yaml").write_text(named)
    (project / "agents" / "server.py").write_text(blocks("tools.md", "python")[1])
    call = '```tool\n{"name": "rhymes", "arguments": {"word": "night"}}\n```'
    (project / "script.yaml").write_text(json.dumps([call, "light"]))
    episode = collab.load("rhymes", model="scripted:script.yaml").run("words/0").episode
    assert [m.content for m in episode.decisions("writer")[1].observation] == ["light"]


def test_the_team_with_tools_runs_its_code(here: Path) -> None:
    tried = json.dumps({"name": "python", "arguments": {"code": f"{SOLUTION}\nstrlen('abc')"}})
    answers = [f"I try it.\n```tool\n{tried}\n```", f"```python\n{SOLUTION}\n```"]
    (here / "script.yaml").write_text(json.dumps(answers))
    team = collab.load("coding-tools", model="scripted:script.yaml")
    episode = team.run("humaneval/23").episode
    assert episode.failure is None
    assert [m.content for m in episode.decisions("main")[1].observation] == ["3"]
    assert episode.solved
