"""Records of a foreign run can be read without approval; running it again needs approval."""

import json
from pathlib import Path

import pytest
from support.trust import run

from collab.recipe import read_recipe


def test_reading_a_recipe_runs_nothing(project: Path, evil: Path, marker: Path) -> None:
    assert run("teams", str(evil / "recipe.yaml"))[0] == 0
    assert read_recipe(str(evil))[1].open
    assert not marker.exists()


@pytest.mark.parametrize("command", ["replay", "show", "report"])
def test_record_needs_no_approval(project: Path, theirs: Path, marker: Path, command: str) -> None:
    status, output = run(
        command, str(theirs), *(["--out", "r.html"] if command == "report" else [])
    )
    assert status == 0, output
    assert not marker.exists()
    if command == "replay":
        assert "so collab ran nothing" in output


def test_replay_without_approval_sums_the_recorded_parts(project: Path, theirs: Path) -> None:
    path = theirs / "episodes.jsonl"
    episode = json.loads(path.read_text())
    episode["turns"][0]["score"]["reward"] = 0.25
    path.write_text(json.dumps(episode) + "\n")
    status, output = run("replay", str(theirs))
    assert status == 1
    assert "add up to 1, not to 0.25" in output


def test_replay_runs_functions_after_approval(project: Path, theirs: Path, marker: Path) -> None:
    status, output = run("replay", str(theirs), "--trust")
    assert status == 0, output
    assert marker.exists()
    assert "so collab ran nothing" not in output


def test_replay_with_forbidden_functions_reads_only_the_record(project: Path, theirs: Path) -> None:
    text = (theirs / "recipe.yaml").read_text()
    (theirs / "recipe.yaml").write_text(text.replace("parser: text", "parser: builtins:exec"))
    assert run("replay", str(theirs))[0] == 0
    status, output = run("replay", str(theirs), "--trust")
    assert status == 2
    assert "function of Python itself" in output
