"""A training folder is self-contained: it can be moved, run, evaluated and resumed."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from collab.cli.app import app
from collab.recipe import Recipe, load_recipe
from collab.recipe.writing import dump_recipe
from collab.trainers import TrainingRun

REWARD = """\
from beside import word


def right(context):
    return float(word in context.joint.text)
"""


@pytest.fixture
def trained(
    game: Recipe, tiny_words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A training run with a custom reward, moved to another folder; its project is deleted."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "rewards.py").write_text(REWARD)
    (project / "beside.py").write_text("word = 'left'\n")
    shutil.move(tmp_path / "game.jsonl", project / "game.jsonl")
    monkeypatch.chdir(project)
    settings = [
        "task.reward.parts={right: {use: 'rewards.py:right'}}",
        f"task.source.path={project}/game.jsonl",
        "trainer.steps=2",
        "trainer.checkpoint_every=1",
    ]
    (project / "game.yaml").write_text(dump_recipe(game))
    recipe = load_recipe("game.yaml", settings=settings)
    asyncio.run(TrainingRun(recipe, Path("run")).run())
    away = tmp_path / "away"
    away.mkdir()
    shutil.move(project / "run", away / "run")
    shutil.rmtree(project)
    monkeypatch.chdir(away)
    return away / "run"


def collab(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.stdout, result.stderr


def test_training_folder_is_run_evaluated_and_resumed(trained: Path, tiny_words: Path) -> None:
    for adapter in ("a", "b"):
        config = json.loads((trained / "adapters" / adapter / "adapter_config.json").read_text())
        assert config["base_model_name_or_path"] == str(tiny_words)
    assert load_recipe(str(trained)).trainer is None
    for name in ("recipe.yaml", "training.yaml"):
        assert "project" not in (trained / name).read_text()

    status, out, err = collab("run", "run", "--task", "game/9")
    assert status == 0, err
    assert "+ run/adapters/a" in out

    status, out, err = collab("eval", "run", "--task", "game/6-9", "--json")
    assert status == 0, err
    notes = json.loads(out.splitlines()[-1])["results"]["notes"]
    assert any("2 of 4 problems are in the training split of run" in note for note in notes)
    [step] = (trained / "checkpoints").glob("*2")
    adapters = [f"--set=agents.{name}.adapter={step}/policies/{name}" for name in ("a", "b")]
    status, out, err = collab("eval", "run", *adapters, "--task", "game/6-9", "--dry-run")
    assert status == 0, err
    assert "2 of 4 problems are in the training split of run" in out

    status, out, err = collab("eval", "run", "--task", "game/8-9", "--json", "-m", "echo")
    assert status == 0, err
    notes = json.loads(out.splitlines()[-1])["results"]["notes"]
    assert not any("training split" in note for note in notes)
    assert any("trained adapters of a, b are not used" in note for note in notes)

    status, out, err = collab("run", "run", "--task", "game/9", "-m", "echo")
    assert "trained adapters of a, b are not used: echo" in err
    assert "+ run/adapters" not in out

    status, _, err = collab("train", "--resume", "run", "--set", "trainer.steps=3")
    assert status == 0, err
    assert json.loads((trained / "run.json").read_text())["summary"]["steps"] == 3
    status, _, err = collab("run", "run", "--task", "game/9")
    assert status == 0, err


def test_foreign_training_run_needs_approval(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "another"))
    for command in (["train", "--resume", "run"], ["run", "run"], ["train", "run/training.yaml"]):
        status, _, err = collab(*command)
        assert status == 2, command
        assert "rewards.py" in err
