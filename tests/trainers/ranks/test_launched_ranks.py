"""Ranks started by `collab train --ranks`: a killed rank, and an interrupt."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

import psutil
import pytest
from support.trainer_recipes import make_game

from collab.recipe.writing import dump_recipe

pytestmark = pytest.mark.ranks

SECONDS = 150
"""Time limit of a run."""


@contextmanager
def started(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Run `collab train` on two ranks up to its second step."""
    command = [sys.executable, "-m", "collab", "train", "r.yaml", "--out", "run", "--json"]
    with subprocess.Popen(
        [*command, "--ranks", "2"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        timer = Timer(SECONDS, process.kill)
        timer.start()
        try:
            for line in process.stdout:
                event = json.loads(line)
                if event["type"] == "step.finished" and event["step"] == 2:
                    break
            yield process
        finally:
            timer.cancel()
            process.kill()


def rank_1(process: subprocess.Popen[str]) -> psutil.Process:
    children = psutil.Process(process.pid).children()
    return next(child for child in children if child.environ().get("RANK") == "1")


@pytest.fixture
def folder(tiny_words: Path, tmp_path: Path) -> Path:
    recipe = make_game(tiny_words, tmp_path, steps=100_000, checkpoint_every=1)
    (tmp_path / "r.yaml").write_text(dump_recipe(recipe))
    return tmp_path


def test_a_killed_rank_is_named(folder: Path) -> None:
    with started(folder) as process:
        rank_1(process).send_signal(signal.SIGKILL)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    message = "error: rank 1 ended: signal 9; its log is run/logs/rank-1.log; continue with:"
    assert f"{message} collab train --resume run" in errors
    assert "Traceback" not in errors
    status = json.loads((folder / "run/run.json").read_text())["status"]
    assert status in ("interrupted", "failed")  # rank 0 was ended, or lost rank 1 first


def test_an_interruption_ends_all_ranks(folder: Path) -> None:
    with started(folder) as process:
        ranks = psutil.Process(process.pid).children()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert not any(rank.is_running() for rank in ranks)
    assert json.loads((folder / "run/run.json").read_text())["status"] == "interrupted"
