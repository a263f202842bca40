"""The examples of docs/environments.md work."""

import json
from pathlib import Path

import pytest
from support.blocks import blocks
from typer.testing import CliRunner

import collab
from collab.cli.app import app
from collab.environments import BUILT_IN
from collab.recipe import load_recipe
from collab.runtime.problems import find_problems
from collab.runtime.prompt_check import check_prompts


@pytest.fixture
def project(here: Path) -> Path:
    """The game of the page, with its suite and its team."""
    _, _, task, team = blocks("environments.md", "yaml")
    (game,) = blocks("environments.md", "python")
    files = {"meeting.py": game, "tasks/meeting.yaml": task, "agents/walkers.yaml": team}
    for name, text in files.items():
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_text(text)
    return here


def test_the_table_names_all_games() -> None:
    page = (Path(__file__).parents[2] / "docs" / "environments.md").read_text()
    for name, game in BUILT_IN.items():
        row = next(line for line in page.splitlines() if line.startswith(f"| `{name}` |"))
        seats = row.split("|")[2]
        assert all(f"`{seat}`" in seats for seat in game.seats), row


def test_custom_game_passes_the_checks(project: Path) -> None:
    found = CliRunner().invoke(app, ["tasks", "meeting", "--check"])
    assert found.exit_code == 0, found.output


def test_custom_game_can_be_played(project: Path) -> None:
    words = {"ann": ["right"] * 2, "bob": ["left"] * 2}
    Path("script.json").write_text(json.dumps(words))
    recipe = load_recipe("walkers", task="meeting", model="echo")
    assert not check_prompts(*find_problems(recipe, ["meeting"])).warnings
    team = collab.load("walkers", task="meeting", model="scripted:script.json")
    for row in range(40):
        found = collab.load("walkers", task="meeting", model="echo").run(f"meeting/{row}").episode
        assert found.failure is None
        a, b = (found.turns[0].joint.find(mark) for mark in "ab")
        if a >= 0 and b - a == 4:  # two steps apart
            episode = team.run(f"meeting/{row}").episode
            assert episode.solved
            assert episode.joint_return == episode.largest_return == 1.0
            break
    else:
        pytest.fail("no problem starts two steps apart")
