"""`collab init`: creates a project that runs unchanged."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest
import yaml
from support.command_line import Collab
from typer.testing import CliRunner

from collab import read_metrics
from collab.cli.app import app
from collab.recipe import load_recipe
from collab.trainers import TrainingRun


@pytest.fixture(scope="module")
def new_projects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("begun") / "mine"
    for kind in ("code", "text", "environment"):
        result = CliRunner().invoke(app, ["init", str(folder / kind), "--kind", kind])
        assert result.exit_code == 0, result.stderr
        assert "collab run recipe.yaml" in result.stdout
    return folder


@pytest.fixture
def scaffold(new_projects: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(new_projects / "code", tmp_path / "mine")
    monkeypatch.chdir(tmp_path / "mine")
    return tmp_path / "mine"


def test_new_project_runs_unchanged(collab: Collab, scaffold: Path) -> None:
    result = collab("run", "recipe.yaml", "--model", "echo")
    assert result.status == 0, result.err
    assert "my-team on 3 problems" in result.out
    assert len(list((scaffold / "runs").iterdir())) == 1


def test_printed_commands_fit_the_project(collab: Collab, scaffold: Path) -> None:
    output = collab("init", "my project").out
    assert "next: cd 'my project' && collab run" in output
    assert "then: collab train recipe.yaml --dry-run\n" in output
    trainer = load_recipe("my project/recipe.yaml").trainer
    assert trainer is not None
    assert trainer.group_size == 4


def test_every_yaml_file_names_an_existing_schema(scaffold: Path) -> None:
    for path in scaffold.rglob("*.yaml"):
        first = path.read_text().splitlines()[0]
        assert first.startswith("# yaml-language-server: $schema=")
        schema = json.loads((path.parent / first.partition("=")[2]).read_text())
        assert set(yaml.safe_load(path.read_text())) <= set(schema["properties"])


def test_canonical_solutions_of_the_new_task_pass(collab: Collab, scaffold: Path) -> None:
    lines = (scaffold / "tasks" / "problems.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    for number, row in enumerate(rows):
        Path("solution.py").write_text(row["prompt"] + row["canonical_solution"])
        (scored,) = collab("score", f"my-task/{number}", "solution.py", "--json").events
        assert scored["solved"], scored


@pytest.fixture(params=["text", "environment"])
def other_kind(
    request: pytest.FixtureRequest,
    new_projects: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    kind: str = request.param
    shutil.copytree(new_projects / kind, tmp_path / "mine")
    monkeypatch.chdir(tmp_path / "mine")
    return kind


def test_every_kind_of_project_is_complete(collab: Collab, other_kind: str) -> None:
    test_every_yaml_file_names_an_existing_schema(Path())
    for line in ("run recipe.yaml", "train recipe.yaml"):
        result = collab(*line.split(), "--model", "echo", "--dry-run")
        assert "warning" not in result.err, result.err
    checked = {"text": ["tasks", "my-task"], "environment": ["tasks", "my-task", "--check"]}
    assert collab(*checked[other_kind]).status == 0
    result = collab("run", "recipe.yaml", "--model", "echo", "--json")
    assert result.status == 0, result.err
    assert not [event for event in result.events if event.get("failure")]


def test_every_kind_of_project_trains(other_kind: str, tiny_words: Path) -> None:
    model = {"name": str(tiny_words), "dtype": "float32", "device": "cpu"}
    one_step = ["trainer.steps=1", "trainer.evaluation=null", "sampling.max_new_tokens=2"]
    recipe = load_recipe("recipe.yaml", model=model, settings=one_step)
    summary = asyncio.run(TrainingRun(recipe, Path("run")).run())
    assert summary["steps"] == 1
    (metrics,) = [m for m in read_metrics("run") if "return/mean" in m]
    assert metrics["episodes/dropped"] == 0


def test_nothing_is_overwritten(collab: Collab, scaffold: Path) -> None:
    (scaffold / "recipe.yaml").write_text("mine")
    result = collab("init")
    assert result.status == 2
    assert "recipe.yaml" in result.err
    assert (scaffold / "recipe.yaml").read_text() == "mine"
