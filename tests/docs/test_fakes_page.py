"""The page about fakes: its script, its test and its commands, run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.blocks import DOCS, blocks

from collab.models.fakes import ScriptedAnswer

PAGE = (DOCS / "fakes.md").read_text()


@pytest.mark.slow
def test_its_test_passes(tmp_path: Path) -> None:
    (tmp_path / "answers.yaml").write_text(blocks("fakes.md", "yaml")[0])
    (tmp_path / "test_team.py").write_text(blocks("fakes.md", "python")[0])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_team.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_its_commands_run(tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = ["bash", "-euo", "pipefail", "-c", blocks("fakes.md", "sh")[0]]
    subprocess.run(command, cwd=tmp_path, env={**os.environ, "PATH": path}, check=True)


def test_it_has_every_key_of_an_answer() -> None:
    keys = set(re.findall(r"^\| `(\w+)` \| [^`|]*", PAGE, re.MULTILINE))
    assert keys >= set(ScriptedAnswer.model_fields)
