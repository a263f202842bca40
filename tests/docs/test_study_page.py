"""Every command of docs/study.md, run in its order, with a fifth of the tokens and one seed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support.blocks import DOCS, blocks

from collab.study.spec import StudySpec, cells_of, load_study

SMALLER = {
    "seeds: 2\n": "seeds: 1\n",
    "tokens: 1000\n": "tokens: 200\n",
    "evaluations: 4\n": "evaluations: 1\n",
    "evaluation.samples: 8\n": "evaluation.samples: 1\n",
}


def test_the_study_of_the_page_is_the_example() -> None:
    told = yaml.safe_load(blocks("study.md", "yaml")[0])
    shipped = DOCS.parent / "examples" / "studies" / "game.yaml"
    assert yaml.safe_load(shipped.read_text()) == told
    spec = load_study(shipped)
    assert {f"`{key}`" for key in StudySpec.model_fields} <= set(
        re.findall(r"`\w+`", (DOCS / "study.md").read_text())
    )
    for cell in cells_of(spec):
        trainer = cell.read()[0].trainer
        assert trainer
        assert (trainer.tokens, trainer.group_size) == (1000, 16)


@pytest.mark.slow
def test_every_command_runs(tmp_path: Path) -> None:
    shutil.copytree(DOCS.parent / "examples", tmp_path / "examples")
    study = tmp_path / "examples" / "studies" / "game.yaml"
    text = study.read_text()
    for whole, small in SMALLER.items():
        assert whole in text
        text = text.replace(whole, small)
    study.write_text(text)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for script in blocks("study.md", "sh"):
        command = ["bash", "-euo", "pipefail", "-c", script]
        subprocess.run(command, cwd=tmp_path, env={**os.environ, "PATH": path}, check=True)
    done = json.loads((tmp_path / "studies" / "game" / "study.json").read_text())
    assert (done["status"], len(done["cells"])) == ("done", 3)
    assert [found["trainer"] for found in done["differences"]] == ["marloo", "cross"]
    probe = json.loads((tmp_path / "runs" / "probe" / "probe.json").read_text())
    assert probe["crossed"]["forms"] == {"row": "crossed", "column": "crossed"}
    assert (tmp_path / "runs" / "probe" / "report.html").is_file()
