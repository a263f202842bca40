"""Attacks with what a command of a server of tools runs besides what the user has agreed to."""

import asyncio
import os
from pathlib import Path

import pytest
from support.rooms.trust import Attacker, recipe_with

from collab.errors import CollabError, Untrusted
from collab.recipe import load_recipe
from collab.recipe.hosted import MCPServer
from collab.tools import ToolServers


def served(attacker: Attacker, *words: str) -> MCPServer:
    command = [word.replace("F", str(attacker.folder)) for word in words]
    agents = {"a": {"prompt": "p", "tools": [{"mcp": command}]}}
    attacker.write("recipe.yaml", recipe_with(agents=agents))
    server = load_recipe(str(attacker.folder), trust=True).team.agents["a"].tools[0]
    assert isinstance(server, MCPServer)
    return server


COMMANDS = {
    "a script that is new": (["sh", "F/late.sh"], "late.sh", "sh"),
    "in a folder": (["sh", "-c", "cd F && sh inner.sh"], "inner.sh", "sh"),
    "behind an option": (["env", "--", "sh", "F/a.sh"], "a.sh", "sh"),
    "behind an equals sign": (["env", "ENV=F/a.sh", "sh", "-i", "-c", "true"], "a.sh", "sh"),
    "the program itself": (["F/program"], "program", "sh"),
    "a folder as a program": (["python", "F/tool"], "tool/__main__.py", "python"),
    "a module of a folder": (["python", "F/tool"], "tool/inner.py", "python"),
    "a server's package": (["python", "F/server.py"], "kit/deep.py", "python"),
    "a server's new sibling": (["python", "F/server.py"], "sibling.py", "python"),
    "by another Python": (["env", "python3", "F/server.py"], "sibling.py", "python"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_runs_nothing_that_changed(attacker: Attacker, name: str) -> None:
    command, changed, language = COMMANDS[name]
    for script in ("inner.sh", "a.sh"):
        attacker.write(script, "true\n")
    attacker.write("program", "#!/bin/sh\n").chmod(0o755)
    attacker.write("tool/__main__.py", "import inner\n")
    attacker.write("tool/inner.py")
    attacker.write("kit/__init__.py")
    attacker.write("kit/deep.py")
    attacker.write(
        "server.py", "import kit.deep\ntry:\n    __import__('sibling')\nexcept ImportError: ...\n"
    )
    server = served(attacker, *command)
    python = attacker.mark
    attacker.write(
        changed, python if language == "python" else f"#!/bin/sh\ntouch {attacker.marker}\n"
    )
    with pytest.raises(CollabError):
        asyncio.run(ToolServers().tools(server))
    assert not attacker.marker.exists()


@pytest.mark.parametrize("beside", ["kit/deep.pyc", "kit/deep.abi3.so", "kit.abi3.so", "kit.pyc"])
def test_a_server_finds_no_compiled_module(attacker: Attacker, beside: str) -> None:
    attacker.write("kit/__init__.py")
    attacker.write("server.py", f"import kit.deep\n{attacker.mark}")
    server = served(attacker, "python", "F/server.py")
    attacker.compiled(beside)
    with pytest.raises(CollabError, match=r"No module named 'kit\.deep'"):
        asyncio.run(ToolServers().tools(server))
    assert not attacker.marker.exists()


def test_a_program_by_a_relative_path_is_asked_about(attacker: Attacker, project: Path) -> None:
    attacker.write("run.sh", "#!/bin/sh\n").chmod(0o755)
    (project / "link").symlink_to(attacker.folder / "run.sh")
    for command in ("./link", os.path.relpath(attacker.folder / "run.sh")):
        (project / "own.yaml").write_text(
            f"agents:\n  a: {{prompt: p, tools: [{{mcp: [{command}]}}]}}\n"
        )
        with pytest.raises(Untrusted):
            load_recipe("own.yaml")


def test_a_link_to_a_server_is_not_turned(attacker: Attacker, project: Path) -> None:
    good = attacker.write("good.py")
    (project / "server.py").symlink_to(good)
    (project / "own.yaml").write_text(
        "agents:\n  a: {prompt: p, tools: [{mcp: [python, ./server.py]}]}\n"
    )
    recipe = load_recipe("own.yaml", trust=True)
    (project / "server.py").unlink()
    (project / "server.py").symlink_to(attacker.write("evil.py", attacker.mark))
    server = recipe.team.agents["a"].tools[0]
    assert isinstance(server, MCPServer)
    with pytest.raises(CollabError):
        asyncio.run(ToolServers().tools(server))
    assert not attacker.marker.exists()
