"""A study whose processes are killed or interrupted: nothing trains on, and all of it goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from support.tiny_words import save_tiny
from support.trainer_recipes import WORDS, make_game

from collab.recipe.schema import dump_recipe
from collab.study.results import StudyResults

pytestmark = pytest.mark.slow

STUDY = """\
recipe: game.yaml
trainers: [magrpo, marloo]
seeds: 1
tokens: 800
evaluations: 1
settings: {trainer.checkpoint_every: 1, trainer.evaluation.samples: 1}
"""
COMMAND = [sys.executable, "-m", "collab", "study", "s.yaml", "--jobs", "2"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    tiny = save_tiny(tmp_path / "tiny", WORDS)
    (tmp_path / "game.yaml").write_text(dump_recipe(make_game(tiny, tmp_path)))
    (tmp_path / "s.yaml").write_text(STUDY)
    return tmp_path


@pytest.fixture
def study(project: Path) -> Iterator[subprocess.Popen[str]]:
    """A study whose two cells have both taken a step."""
    with (project / "told.txt").open("w") as told:
        process = subprocess.Popen(COMMAND, cwd=project, stderr=told, text=True)
    try:
        wait_for(lambda: sum(map(has_stepped, project.glob("studies/s/*/metrics.jsonl"))) == 2)
        yield process
    finally:
        process.kill()
        process.wait()


def has_stepped(metrics: Path) -> bool:
    return "step.finished" in metrics.read_text()


def wait_for(happened: Callable[[], bool], seconds: float = 120) -> None:
    until = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.05)


def at_work(project: Path) -> list[int]:
    """Processes that train a cell of this project."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (path / "cmdline").read_bytes().split(b"\0")
            if b"train" in words and (path / "cwd").readlink() == project:
                found.append(int(path.name))
    return found


def results(project: Path) -> StudyResults:
    return StudyResults.model_validate_json((project / "studies/s/study.json").read_text())


def go_on(project: Path) -> None:
    subprocess.run([*COMMAND, "--resume"], cwd=project, check=True)
    assert {cell.status for cell in results(project).cells} == {"done"}
    for cell in results(project).cells:
        rows = [
            json.loads(line)
            for line in (project / "studies/s" / cell.name / "metrics.jsonl")
            .read_text()
            .splitlines()
        ]
        steps = [row["step"] for row in rows if row["type"] == "step.finished"]
        assert steps == list(range(1, len(steps) + 1)), "each step once"
        assert cell.points[-1].tokens >= 800


def test_killed(project: Path, study: subprocess.Popen[str]) -> None:
    assert len(at_work(project)) == 2
    os.kill(study.pid, signal.SIGKILL)  # whose trainings may live on when it is resumed
    assert results(project).status == "running"
    go_on(project)


def test_interrupted(project: Path, study: subprocess.Popen[str]) -> None:
    os.kill(study.pid, signal.SIGINT)
    assert study.wait(timeout=20) == 130, (project / "told.txt").read_text()
    assert at_work(project) == []
    for cell in results(project).cells:
        about = json.loads((project / "studies/s" / cell.name / "run.json").read_text())
        assert about["status"] == "interrupted"
