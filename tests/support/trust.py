"""Foreign recipes, and functions that leave a mark when they run."""

import importlib.util
import py_compile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from collab import plugins
from collab.cli.app import app
from collab.errors import CollabError
from collab.recipe import load_recipe
from collab.recipe.hosted import MCPServer
from collab.view.server import Pages

TEAM = """\
agents:
  a: {prompt: "Say {{ task.word }}."}
"""
EVIL = """\
from pathlib import Path

Path({marker!r}).write_text("ran")


def right(context):
    return 1.0
"""


def recipe_with(*, use: str = "nonempty", **team: object) -> str:
    agent = {"prompt": "Say {{ task.word }}.", "parser": "text"}
    return yaml.safe_dump(
        {
            "team": {"name": "t", "agents": {"a": agent}, **team},
            "task": {
                "name": "words",
                "kind": "text",
                "source": {"path": "words.jsonl"},
                "hidden": ["answer"],
                "reward": {"parts": {"right": {"use": use}}},
            },
            "model": "echo",
        }
    )


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.output


def view(folder: Path) -> None:
    """`collab view` of the parent folder, with pages rendered without a server."""

    def read(folders: Sequence[Path], *_: object) -> None:
        pages = Pages(folders)
        assert folder.name in {row["name"] for row in pages.rows()}
        assert pages.runs()
        assert pages.report([folder.name])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("collab.view.server.serve", read)
        assert run("view", str(folder.parent)) == (0, "")


def own_server(*command: str, environment: Sequence[str] = (), trust: bool = False) -> MCPServer:
    """The tool server of the user's own recipe in the current folder."""
    agent = {"prompt": "p", "tools": [{"mcp": [*command], "environment": [*environment]}]}
    Path("own.yaml").write_text(yaml.safe_dump({"agents": {"a": agent}}))
    return _server_of("own.yaml", trust=trust)


def _server_of(recipe: str, *, trust: bool) -> MCPServer:
    server = load_recipe(recipe, trust=trust).team.agents["a"].tools[0]
    assert isinstance(server, MCPServer)
    return server


class Attacker:
    """A foreign folder; `mark` is Python code that leaves a mark when it runs."""

    def __init__(self, folder: Path, marker: Path) -> None:
        self.folder, self.marker = folder, marker
        self.mark = f"from pathlib import Path\nPath({str(marker)!r}).write_text('ran')\n"

    def write(self, name: str, text: str = "") -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def compiled(self, name: str, source: str = "") -> Path:
        """Write bytecode with the mark, at a path or in the cache of a source."""
        at = Path(importlib.util.cache_from_source(str(self.folder / name))) if source else None
        evil = self.write("evil.txt", self.mark)
        unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
        target = at or self.folder / name
        py_compile.compile(str(evil), cfile=str(target), invalidation_mode=unchecked)
        evil.unlink()
        return target

    def agree(self, use: str = "rules.py:right") -> None:
        self.write("recipe.yaml", recipe_with(use=use))
        load_recipe(str(self.folder), trust=True)

    def served(self, *words: str, trust: bool = True) -> MCPServer:
        """The tool server of an approved recipe; F in its command stands for the folder."""
        command = [word.replace("F", str(self.folder)) for word in words]
        agents = {"a": {"prompt": "p", "tools": [{"mcp": command}]}}
        self.write("recipe.yaml", recipe_with(use="length", agents=agents))
        return _server_of(str(self.folder), trust=trust)

    def run(self, use: str = "rules.py:right") -> None:
        """Load and call the function, ignoring errors."""
        reference = str(self.folder / use) if ".py:" in use else use
        with suppress(CollabError, ImportError):
            plugins.load_function("reward", reference)(None)
