"""The code in docs/python.md, docs/from_trl.md and docs/from_comlrl.md runs unchanged."""

from pathlib import Path
from typing import Any

import pytest
from support.blocks import blocks

import collab

PAGES = ("python.md", "from_trl.md", "from_comlrl.md")


def run(code: str, tiny: Path) -> dict[str, Any]:
    """Run an example; if it trains, use a tiny model instead of the default one."""
    small = f"model={{'name': {str(tiny)!r}, 'dtype': 'float32', 'device': 'cpu'}}, steps=2"
    found: dict[str, Any] = {}
    exec(compile(code.replace("steps=2", small), "example", "exec"), found)
    return found


@pytest.mark.parametrize("page", PAGES)
def test_the_first_example_trains(page: str, tiny_words: Path, here: Path) -> None:
    trained = run(blocks(page, "python")[0], tiny_words)["run"]
    assert isinstance(trained, collab.Training)
    assert trained.summary["steps"] == 2
    assert all(row["return/maximum"] > 0 for row in trained.metrics)
    assert not trained.metrics[-1].get("episodes/dropped")


def test_the_other_examples_run(
    here: Path, capsys: pytest.CaptureFixture[str], tiny_words: Path
) -> None:
    keeps, unscored, streams, evaluates, objects, reads = blocks("python.md", "python")[1:]
    assert len(run(keeps, tiny_words)["others"].episodes) == 2
    teams = run(evaluates, tiny_words)["results"].teams
    assert [(t.label, t.metrics["return"].mean) for t in teams] == [("plain", 0.0), ("hinted", 0.5)]
    run(unscored, tiny_words)
    assert "What is a proof? Be brief." in capsys.readouterr().out
    run(streams, tiny_words)
    assert "run.finished" in capsys.readouterr().out
    run(objects, tiny_words)
    assert "Say it in fewer words." in capsys.readouterr().out
    collab.load("coding", model="echo").run("humaneval/1", out="runs/first")
    run(reads, tiny_words)
    assert "runs/first done" in capsys.readouterr().out


def test_every_public_name_exists() -> None:
    for name in collab.__all__:
        assert getattr(collab, name) is not None, name
