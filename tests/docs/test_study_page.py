"""Every command of docs/study.md, run in its order."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.blocks import DOCS, blocks


@pytest.mark.slow
def test_every_command_runs(tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(DOCS.parent / "examples")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for script in blocks("study.md", "sh"):
        command = ["bash", "-euo", "pipefail", "-c", script]
        subprocess.run(command, cwd=tmp_path, env={**os.environ, "PATH": path}, check=True)
    probe = json.loads((tmp_path / "runs" / "probe" / "probe.json").read_text())
    assert probe["crossed"]["forms"] == {"row": "crossed", "column": "crossed"}
    assert (tmp_path / "runs" / "probe" / "report.html").is_file()
