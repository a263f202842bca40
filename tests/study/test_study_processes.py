"""Killed or interrupted studies: no training continues, and all cells can be resumed."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from operator import gt
from pathlib import Path

import psutil
import pytest
from support.processes import COLLAB, wait_for
from support.studies import results
from support.trainer_recipes import make_game

from collab.recipe.writing import dump_recipe

pytestmark = pytest.mark.slow

STUDY = """\
recipe: game.yaml
trainers: [magrpo, marloo]
seeds: 1
tokens: 100000
evaluations: 1
settings: {trainer.checkpoint_every: 1, trainer.evaluation.samples: 1}
"""
COMMAND = (*COLLAB, "study", "s.yaml", "--jobs", "2")


@pytest.fixture
def project(tiny_words: Path, tmp_path: Path) -> Path:
    (tmp_path / "game.yaml").write_text(dump_recipe(make_game(tiny_words, tmp_path)))
    (tmp_path / "s.yaml").write_text(STUDY)
    return tmp_path


@contextmanager
def started(project: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    with (project / "stderr.txt").open("w") as stderr:
        process = subprocess.Popen([*COMMAND, *options], cwd=project, stderr=stderr, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def steps(project: Path) -> list[list[int]]:
    """The steps that each cell has recorded."""
    files = sorted(project.glob("studies/s/*/metrics.jsonl"))
    texts = [file.read_text().rpartition("\n")[0] for file in files]  # complete lines
    rows = [map(json.loads, text.splitlines()) for text in texts]
    return [[row["step"] for row in each if row["type"] == "step.finished"] for each in rows]


def training_pids(project: Path) -> set[int]:
    """Processes that train a cell of this project."""
    processes = psutil.process_iter(["cmdline", "cwd"])
    here = [p for p in processes if p.info["cwd"] == str(project)]
    return {p.pid for p in here if "train" in p.info["cmdline"]}


def test_killed_study_is_resumed_and_interrupted(project: Path) -> None:
    with started(project) as study:
        wait_for(lambda: len(steps(project)) == 2 and all(steps(project)))
        killed = training_pids(project)
        assert len(killed) == 2
        os.kill(study.pid, signal.SIGKILL)  # its training processes may still run during the resume
    assert results(project).status == "running"
    with started(project) as study:
        wait_for(lambda: len(training_pids(project)) == 2 and not killed & training_pids(project))
        before = steps(project)
        wait_for(lambda: all(map(gt, steps(project), before)))
        os.kill(study.pid, signal.SIGINT)
        assert study.wait(timeout=20) == 130, (project / "stderr.txt").read_text()
    assert training_pids(project) == set()
    for cell in results(project).cells:
        about = json.loads((project / "studies/s" / cell.name / "run.json").read_text())
        assert about["status"] == "interrupted"
    for cell_steps in steps(project):
        assert cell_steps == list(range(1, len(cell_steps) + 1)), "each step was taken once"
