"""Recipes of somebody else, and functions that leave a mark where they run."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from collab.cli.app import app
from collab.view.folders import Folders
from collab.view.pages import Pages

TEAM = """\
agents:
  a: {prompt: "Say {{ task.word }}."}
"""
EVIL = """\
from pathlib import Path

Path({marker!r}).write_text("ran")


def right(context):
    return 1.0


def parse(response):
    return response


def join(artefacts, problem):
    raise AssertionError


def tell(outcome):
    return {{}}


def engine(spec):
    raise AssertionError


def credit(group):
    raise AssertionError
"""


def recipe_with(*, use: str = "nonempty", **team: object) -> str:
    agent = {"prompt": "Say {{ task.word }}.", "parser": team.pop("parser", "text")}
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
    """`collab view` of the folder that it is in, whose pages are made without a server."""

    def reads(folders: Sequence[Path], *_: object) -> None:
        pages = Pages(Folders(folders))
        assert folder.name in {row["name"] for row in pages.rows()}
        assert pages.runs()
        assert pages.report([folder.name])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("collab.view.serve", reads)
        assert run("view", str(folder.parent)) == (0, "")
