"""`collab init`: a project that runs as it is."""

import json
from pathlib import Path

import pytest
import yaml


@pytest.fixture
def scaffold(collab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    result = collab("init", "mine")
    assert result.status == 0, result.err
    assert "next: cd mine && collab run recipe.yaml" in result.out
    monkeypatch.chdir(tmp_path / "mine")
    return tmp_path / "mine"


def test_the_project_runs_as_it_is(collab, scaffold: Path) -> None:
    result = collab("run", "recipe.yaml", "--model", "echo")
    assert result.status == 0, result.err
    assert "my-team on 3 problems" in result.out
    assert len(list((scaffold / "runs").iterdir())) == 1


def test_every_yaml_file_names_a_schema_that_is_there(scaffold: Path) -> None:
    for path in scaffold.rglob("*.yaml"):
        first = path.read_text().splitlines()[0]
        assert first.startswith("# yaml-language-server: $schema=")
        schema = json.loads((path.parent / first.partition("=")[2]).read_text())
        assert set(yaml.safe_load(path.read_text())) <= set(schema["properties"])


def test_its_canonical_solutions_pass(collab, scaffold: Path) -> None:
    lines = (scaffold / "tasks" / "problems.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    for number, row in enumerate(rows):
        Path("solution.py").write_text(row["prompt"] + row["canonical_solution"])
        (scored,) = collab("score", f"my-task/{number}", "solution.py", "--json").events
        assert scored["solved"], scored


def test_nothing_is_overwritten(collab, scaffold: Path) -> None:
    (scaffold / "recipe.yaml").write_text("mine")
    result = collab("init")
    assert result.status == 2
    assert "recipe.yaml" in result.err
    assert (scaffold / "recipe.yaml").read_text() == "mine"
