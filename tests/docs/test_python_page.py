"""The code in docs/python.md, docs/from_trl.md and docs/from_comlrl.md runs unchanged."""

from pathlib import Path
from typing import Any

import pytest
import torch
from support.blocks import blocks
from support.tiny_words import save_tiny
from support.trainer_recipes import WORDS

import collab

PAGES = ("python.md", "from_trl.md", "from_comlrl.md")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("tiny"), WORDS)


def run(code: str, tiny: Path) -> dict[str, Any]:
    """Run an example; if it trains, use a tiny model instead of the default one."""
    small = f"model={{'name': {str(tiny)!r}, 'dtype': 'float32', 'device': 'cpu'}}, steps=2"
    found: dict[str, Any] = {}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        exec(compile(code.replace("steps=2", small), "example", "exec"), found)
    finally:
        torch.set_num_threads(threads)
    return found


@pytest.mark.parametrize("page", PAGES)
def test_the_first_example_trains(page: str, tiny: Path, here: Path) -> None:
    trained = run(blocks(page, "python")[0], tiny)["run"]
    assert isinstance(trained, collab.Training)
    assert trained.summary["steps"] == 2
    assert all(row["return/maximum"] > 0 for row in trained.metrics)
    assert not trained.metrics[-1].get("episodes/dropped")


def test_the_other_examples_run(here: Path, capsys: pytest.CaptureFixture[str], tiny: Path) -> None:
    keeps, evaluates, objects, reads = blocks("python.md", "python")[1:]
    assert len(run(keeps, tiny)["others"].episodes) == 2
    teams = run(evaluates, tiny)["results"].teams
    assert [(t.label, t.metrics["return"].mean) for t in teams] == [("plain", 0.0), ("hinted", 0.5)]
    assert run(objects, tiny)["rollout"].episode.joint_return == 1.0
    collab.load("coding", model="echo").run("humaneval/1", out="runs/first")
    run(reads, tiny)
    assert "runs/first done" in capsys.readouterr().out


def test_every_public_name_exists() -> None:
    for name in collab.__all__:
        assert getattr(collab, name) is not None, name
