"""Processes that collab starts import nothing from the current folder, unless collab does."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import collab
from collab.distribution import python_command
from collab.study.study import train
from collab.trainers.ranks.launching import torchrun_arguments

EVIL = "open('ran', 'w').close()\n"


@pytest.fixture
def evil_folder(here: Path) -> Path:
    """A received folder in which the user starts the command `collab`."""
    (here / "collab").mkdir()
    for name in ("json.py", "collab/__init__.py", "collab/__main__.py"):
        (here / name).write_text(EVIL)
    return here


def test_study_run_runs_nothing_from_the_current_folder(evil_folder: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    status, error = asyncio.run(train(["nothing.yaml"], log, threads=1))
    assert (status, "nothing.yaml" in error) == (2, True), error
    assert not Path("ran").exists()


def test_rank_executes_nothing_from_the_current_folder(evil_folder: Path) -> None:
    from torch.distributed.run import config_from_args, parse_args

    ranks: Any = parse_args(torchrun_arguments(2, ["--help"]))
    _, command, arguments = config_from_args(ranks)
    assert isinstance(command, str), "torchrun gets a program, not a function"
    done = subprocess.run([command, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, "collab" in done.stdout) == (0, True), done.stderr
    assert not Path("ran").exists()


def test_children_of_python_m_collab_may_import_the_current_folder(
    monkeypatch: pytest.MonkeyPatch, here: Path
) -> None:
    assert python_command() == [sys.executable, "-P"]
    monkeypatch.setattr(sys, "path", [str(here), *sys.path])
    assert python_command() == [sys.executable]


def test_package_starts_python_only_in_safe_path_mode() -> None:
    started = re.compile(r'sys\.executable, (?!"-P"|\*_ALONE)')
    sources = sorted(Path(collab.__file__).parent.rglob("*.py"))
    assert [str(path) for path in sources if started.search(path.read_text())] == []
