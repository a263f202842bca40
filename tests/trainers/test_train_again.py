"""`collab train`: what it says of steps, runs and folders in which nothing is left to learn."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.trainer_recipes import make_game
from typer.testing import CliRunner

from collab import read_metrics
from collab.cli.app import app
from collab.recipe import load_recipe
from collab.recipe.schema import dump_recipe
from collab.trainers import TrainingRun


@pytest.fixture
def folder(tiny_words: Path, tmp_path: Path) -> Path:
    recipe = make_game(tiny_words, tmp_path, steps=2, evaluation={"samples": 1})
    (tmp_path / "r.yaml").write_text(dump_recipe(recipe))
    return tmp_path


def collab(folder: Path, *arguments: str) -> Any:
    with contextlib.chdir(folder):
        return CliRunner().invoke(app, ["train", *arguments])


def test_a_finished_run_is_not_trained_again(folder: Path) -> None:
    collab(folder, "r.yaml", "--out", "run")
    before = (folder / "run" / "run.json").read_bytes()
    found = collab(folder, "--resume", "run")
    assert found.exit_code == 0, found.stderr
    assert "run is finished" in found.stderr
    assert "trainer.steps=N" in found.stderr
    assert found.stdout.startswith("2 steps in ")
    assert "sampled" in found.stdout
    assert (folder / "run" / "run.json").read_bytes() == before
    found = collab(folder, "--resume", "run", "--set", "trainer.steps=3")
    assert "step 3/3" in found.stdout


NOTHING = "def nothing(group):\n    return {}\n"


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (["trainer.algorithm=nothing.py:nothing"], "the algorithm returned no weights"),
        (
            [
                *("task.reward.parts.a_left.weight=0", "task.reward.parts.b_left.weight=0"),
                "sampling.max_new_tokens=1",
            ],
            "all returns of each group are equal; ",
        ),
    ],
)
def test_steps_without_anything_to_learn_are_named(
    folder: Path, settings: list[str], told: str
) -> None:
    (folder / "nothing.py").write_text(NOTHING)
    chosen = [part for setting in settings for part in ("--set", setting)]
    found = collab(folder, "r.yaml", "--out", "run", *chosen)
    assert found.exit_code == 0, found.stderr
    assert f"warning: nothing was learned: {told}" in found.stdout
    assert ("responses are truncated" in found.stdout) == told.endswith("; ")
    assert "warning: training skipped 2 of 2 steps" in found.stdout
    assert json.loads((folder / "run" / "run.json").read_text())["summary"]["unlearned"] == 2


def test_the_address_of_tasks_chooses_what_is_trained_on(folder: Path) -> None:
    (folder / "tasks").mkdir()
    suite = load_recipe(str(folder / "r.yaml")).model_dump(mode="json", exclude_none=True)["task"]
    (folder / "tasks" / "sums.yaml").write_text(yaml.safe_dump(suite))
    found = collab(folder, "r.yaml", "--task", "sums/0-2", "--dry-run", "--json")
    assert found.exit_code == 0, found.stderr
    plan = json.loads(found.stdout)
    assert plan["training_tasks"] == 3
    assert plan["recipe"]["trainer"]["tasks"] == "0-2"


RAISES = "def raises(group):\n    raise ValueError('no')\n"


def test_a_run_without_a_step_can_be_started_again(folder: Path) -> None:
    (folder / "raises.py").write_text(RAISES)
    raising = ("--set", "trainer.algorithm=raises.py:raises")
    assert collab(folder, "r.yaml", "--out", "run", *raising).exit_code == 1
    found = collab(folder, "r.yaml", "--out", "run")
    assert found.exit_code == 0, found.stderr
    rows = read_metrics(folder / "run")
    assert [row["step"] for row in rows if "return/mean" in row] == [1, 2]
    found = collab(folder, "r.yaml", "--out", "run")
    assert "run already contains a run" in found.stderr


def test_a_folder_that_holds_a_run_is_refused_before_models_load(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collab(folder, "r.yaml", "--out", "run", "--set", "trainer.steps=1")

    def made(*_: object, **__: object) -> None:
        raise AssertionError("a training was made")

    monkeypatch.setattr(TrainingRun, "__init__", made)
    assert "run already contains a run" in collab(folder, "r.yaml", "--out", "run").stderr
