"""Attacks through files that the command of an approved tool server also runs."""

import asyncio
import hashlib
import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
from support.rooms.trust import Attacker, recipe_with
from support.shares import one_row_in

from collab.errors import CollabError, RecipeError, ToolUnavailable, Untrusted
from collab.recipe import load_recipe
from collab.recipe.hosted import MCPServer
from collab.tools import ToolServers
from collab.trust import commands

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
    "behind an attached option": (["env", "sh", "-eF/a.sh", "F/a.sh"], "a.sh", "sh"),
    "with a blank in its name": (["sh", "-c", "sh 'F/my kit/a.sh'"], "my kit/a.sh", "sh"),
    "below two folders": (["sh", "-c", "cd F && cd kit && sh inner.sh"], "kit/inner.sh", "sh"),
    "a folder up": (["sh", "-c", "cd F/kit && sh ../a.sh"], "a.sh", "sh"),
    "in the home folder": (["sh", "-c", "sh ~/a.sh"], "a.sh", "sh"),
    "a program behind a link": (["link/../a.sh"], "a.sh", "sh"),
    "with a dollar in its name": (["sh", "F/run$USER.sh"], "run$USER.sh", "sh"),
    "a value with a blank": (["env", "ENV=F/my kit/a.sh", "sh", "-i"], "my kit/a.sh", "sh"),
    "before an operator": (["sh", "-c", "cd 'F/my kit'; sh a.sh"], "my kit/a.sh", "sh"),
    "by another Python": (["env", "python3", "F/server.py"], "sibling.py", "python"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_command_does_not_run_changed_files(
    attacker: Attacker, project: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    command, changed, language = COMMANDS[name]
    monkeypatch.setenv("HOME", str(attacker.folder))
    for script in ("inner.sh", "a.sh", "my kit/a.sh", "kit/inner.sh", "run$USER.sh"):
        attacker.write(script, "#!/bin/sh\n").chmod(0o755)
    (project / "link").symlink_to(attacker.folder / "kit")
    attacker.write("program", "#!/bin/sh\n").chmod(0o755)
    attacker.write("tool/__main__.py", "import inner\n")
    attacker.write("tool/inner.py")
    attacker.write("kit/__init__.py")
    attacker.write("kit/deep.py")
    attacker.write(
        "server.py", "import kit.deep\ntry:\n    __import__('sibling')\nexcept ImportError: ...\n"
    )
    server = attacker.served(*command)
    python = attacker.mark
    attacker.write(
        changed, python if language == "python" else f"#!/bin/sh\ntouch {attacker.marker}\n"
    )
    with pytest.raises(CollabError):
        asyncio.run(ToolServers().tools(server))
    assert not attacker.marker.exists()


PYTHON = f"python3.{sys.version_info.minor}"
STARTS = [
    ["python", "F/server.py"],
    ["env", "python3", "-E", "F/server.py"],
    [PYTHON, "-E", "F/server.py"],
    ["sh", "-c", "python3 -E F/server.py"],
    ["sh", "-c", "cd F && python3 -E server.py"],
    ["env", "-i", "python3", "F/server.py"],
]
"""Starts of one server; Python drops PYTHON* variables in all but the first."""
PLANTED = ("bytecode", "sibling", "kit/deep.abi3.so", "kit.pyc")


@pytest.fixture
def this_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every name of Python in a command lead to this one, whose bytecode is planted."""
    (tmp_path / "bin").mkdir()
    for name in ("python3", PYTHON):
        (tmp_path / "bin" / name).symlink_to(sys.executable)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")


def refuses(server: MCPServer) -> None:
    with pytest.raises(Untrusted, match="or a file in its folder, has changed since you approved"):
        asyncio.run(ToolServers().tools(server))


@pytest.mark.usefixtures("this_python")
@pytest.mark.parametrize(("command", "planted"), one_row_in(5, product(STARTS, PLANTED)))
def test_new_files_in_a_server_folder_do_not_run(
    attacker: Attacker, command: list[str], planted: str
) -> None:
    attacker.write("helper.py")
    attacker.write("kit/__init__.py")
    attacker.write(
        "server.py",
        "import helper\nfor name in ('sibling', 'kit.deep'):\n"
        "    try:\n        __import__(name)\n    except ImportError: ...\n",
    )
    server = attacker.served(*command)
    with pytest.raises(ToolUnavailable):  # it runs but is not an MCP server
        asyncio.run(ToolServers().tools(server))
    assert not attacker.marker.exists()
    server = attacker.served(*command)
    if planted == "sibling":
        attacker.write("sibling.py", attacker.mark)
    else:
        name = "helper.py" if planted == "bytecode" else planted
        attacker.compiled(name, "cache" if planted == "bytecode" else "")
    refuses(server)
    assert not attacker.marker.exists()


LOADS = {
    "a sourced script": (["sh", "F/server.sh"], "server.sh", ". F/lib.sh", "lib.sh"),
    "a pattern": (["sh", "-c", "for f in F/d/*; do . $f; done"], "d/a.sh", "true", "d/b.sh"),
    "a pattern below": (["sh", "-c", "cd F; . ./d/*.sh"], "a.sh", "true", "d/b.sh"),
    "run_path": (
        ["env", "python3", "F/server.py"],
        "server.py",
        "import runpy, os\nif os.path.exists('F/late.py'): runpy.run_path('F/late.py')",
        "late.py",
    ),
    "a linked folder": (["sh", "F/server.sh"], "server.sh", ". F/linked/lib.sh", "../kit/lib.sh"),
    "a path of modules": (["env", "PYTHONPATH=F", "python3", "-m", "late"], "a.py", "", "late.py"),
}


@pytest.mark.usefixtures("this_python")
@pytest.mark.parametrize("name", LOADS)
def test_new_files_loaded_by_a_command_do_not_run(attacker: Attacker, name: str) -> None:
    command, file, text, added = LOADS[name]
    attacker.write(file, text.replace("F", str(attacker.folder)) + "\n")
    attacker.write("d/x.sh", "true\n")
    (attacker.folder / "../kit").mkdir()
    (attacker.folder / "linked").symlink_to("../kit")
    server = attacker.served(*command)
    is_python = added.endswith(".py")
    attacker.write(added, attacker.mark if is_python else f"touch {attacker.marker}\n")
    refuses(server)
    assert not attacker.marker.exists()


def test_server_starts_while_its_folder_is_unchanged(attacker: Attacker) -> None:
    attacker.write("helper.py", attacker.mark)
    attacker.write("server.py", "import helper\n")
    server = attacker.served("python", "F/server.py")
    for _ in range(2):
        with pytest.raises(ToolUnavailable):
            asyncio.run(ToolServers().tools(server))
    assert attacker.marker.exists()
    load_recipe(str(attacker.folder))
    (attacker.folder / "helper.py").rename(attacker.folder / "other.py")
    refuses(server)
    with pytest.raises(Untrusted, match=f"and any file in {attacker.folder} "):
        load_recipe(str(attacker.folder))


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


def test_folders_of_different_content_have_different_digests(tmp_path: Path) -> None:
    content = b"evil\n"
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    os.mkfifo(one / "a")
    name = hashlib.blake2b(content).digest().replace(b"/", b".").replace(b"\0", b".") + b"z"
    Path(os.fsdecode(os.fsencode(one) + b"/" + name)).write_text("harmless")
    (two / "a").write_bytes(content)
    (two / "z").write_text("harmless")
    assert commands._folder_digest(one) != commands._folder_digest(two)


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


def test_too_many_arguments_are_refused(attacker: Attacker) -> None:
    with pytest.raises(RecipeError, match="has more than 1,000 words, too many to look"):
        attacker.served("sh", *(f"w{n}" for n in range(1001)))


def test_too_many_folders_are_refused(attacker: Attacker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "MOST_FOLDERS", 2)
    for n in range(3):
        attacker.write(f"d{n}/a.sh")
    with pytest.raises(RecipeError, match="has more than 2 folders, too many to check"):
        attacker.served("ls", "F/d0", "F/d1", "F/d2")


def test_approval_question_names_compiled_files(attacker: Attacker) -> None:
    attacker.write("server.py", "import helper\n")
    attacker.compiled("helper.pyc")
    with pytest.raises(Untrusted, match=r", 1 of them compiled, e\.g\. .*/helper\.pyc \(mcp; "):
        attacker.served("python", "F/server.py", trust=False)


@pytest.mark.parametrize("limit", ["MOST_FILES", "MOST_BYTES"])
def test_a_folder_above_the_limits_is_refused(
    attacker: Attacker, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    for n in range(3):
        attacker.write(f"d/{n}.py", "one = 1\n")
    monkeypatch.setattr(commands, limit, 2)
    with pytest.raises(RecipeError, match=r"has more than .*; move the server's files"):
        attacker.served("sh", "F/d/0.py")


def test_a_folder_of_many_levels_is_refused(attacker: Attacker) -> None:
    attacker.write("server.py")
    attacker.write("d/" * 51 + "deep.py")
    with pytest.raises(RecipeError, match="or 50 levels of folders, too much to check"):
        attacker.served("python", "F/server.py")


def test_links_are_resolved_once_per_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "inner").mkdir()
    for n in range(20):
        (tmp_path / "inner" / f"{n}.py").write_text("")
    resolved: list[Path] = []
    resolve = commands._real

    def watched(path: Path) -> Path:
        resolved.append(path)
        return resolve(path)

    monkeypatch.setattr(commands, "_real", watched)
    commands._folder_digest(tmp_path)
    assert resolved == [tmp_path, tmp_path / "inner"]


def test_folders_of_the_user_have_no_limit(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "MOST_FILES", 0)
    (project / "server.py").write_text("")
    tool = "{mcp: [env, TMPDIR=/tmp, python, server.py]}"
    (project / "own.yaml").write_text(f"agents:\n  a: {{prompt: p, tools: [{tool}]}}\n")
    load_recipe("own.yaml")


def test_program_given_by_a_relative_path_needs_approval(attacker: Attacker, project: Path) -> None:
    attacker.write("run.sh", "#!/bin/sh\n").chmod(0o755)
    (project / "link").symlink_to(attacker.folder / "run.sh")
    for command in ("./link", os.path.relpath(attacker.folder / "run.sh")):
        (project / "own.yaml").write_text(
            f"agents:\n  a: {{prompt: p, tools: [{{mcp: [{command}]}}]}}\n"
        )
        with pytest.raises(Untrusted):
            load_recipe("own.yaml")


def test_redirected_link_to_a_server_is_refused(attacker: Attacker, project: Path) -> None:
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


def test_foreign_folder_in_the_current_one_is_checked(attacker: Attacker, project: Path) -> None:
    below = Attacker(project / "theirs", attacker.marker)
    below.write("words.jsonl", '{"word": "w0"}\n')
    below.write("server.py")
    server = below.served("python", "F/server.py")
    below.write("sibling.py")
    refuses(server)
