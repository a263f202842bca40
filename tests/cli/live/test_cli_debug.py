"""`collab --debug`, and shell completion."""

from pathlib import Path

import pytest
from support.command_line import Collab
from typer.testing import CliRunner

from collab.cli import options
from collab.cli.app import app


@pytest.fixture(autouse=True)
def reset_debugging(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "debugging", False)


def test_debug_shows_where_an_error_comes_from(collab: Collab) -> None:
    plain, shown = collab("run", "nobody"), collab("--debug", "run", "nobody")
    assert "Traceback" not in plain.err
    assert "Traceback" in shown.err
    assert shown.err.endswith(plain.err)
    assert shown.status == plain.status


def test_debug_shows_the_line_of_a_users_function(collab: Collab) -> None:
    Path("mine.py").write_text("def right(context):\n    raise KeyError('oops')\n")
    words = ["run", "pair", "-t", "words/0", "-m", "echo"]
    words += ["--set", "task.reward.parts.mine={use: 'mine.py:right', weight: 1}"]
    plain, shown = collab(*words), collab("--debug", *words)
    assert plain.status == 1
    assert "raise KeyError('oops')" not in plain.err
    assert "raise KeyError('oops')" in shown.err


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("collab sh", "show"),
        ("collab show ru", "runs/first"),
        ("collab run pai", "pair"),
        ("collab train pair --trainer magr", "magrpo"),
        ("collab run pair --task wor", "words"),
    ],
)
def test_shell_completes_commands_runs_and_names(collab: Collab, line: str, text: str) -> None:
    collab("run", "pair", "-t", "words/0", "-m", "echo", "--out", "runs/first")
    place = {"_COLLAB_COMPLETE": "complete_bash", "COMP_WORDS": line}
    place["COMP_CWORD"] = str(len(line.split()) - 1)
    result = CliRunner().invoke(app, [], env=place, prog_name="collab")
    assert text in result.stdout.split()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completion_offers_no_dangerous_name(project: Path, shell: str) -> None:
    for name in (
        "$(touch ran)",
        "`touch ran`",
        "a;b",
        "a b",
        "a\x1b[2J",
        "a\nb",
        "\u202ea",
        "fine-1.é",
    ):
        (project / "runs" / name).mkdir(parents=True)
        (project / "runs" / name / "run.json").write_text("{}")
        (project / "agents" / f"{name}.yaml").write_text("")
    (project / "agents" / "--trust.yaml").write_text("")
    place = {
        "_COLLAB_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": "collab run ",
        "COMP_CWORD": "2",
    }
    place |= {"_TYPER_COMPLETE_ARGS": "collab run ", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    offered = CliRunner().invoke(app, [], env=place, prog_name="collab").stdout
    assert "fine-1.é" in offered
    assert "runs/fine-1.é" in offered
    harmful = ("touch", "a;b", "a b", "a\nb", "\x1b", "\u202e", "trust")
    assert not [text for text in harmful if text in offered]
