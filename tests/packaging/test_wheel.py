"""The wheel alone, in a new environment, from an empty folder."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*command: object, cwd: Path) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.slow
def test_the_wheel_runs_the_main_job(tmp_path: Path) -> None:
    quiet = ("--quiet", "--disable-pip-version-check")
    run(sys.executable, "-m", "pip", "wheel", *quiet, "--no-deps", "-w", tmp_path, ROOT, cwd=ROOT)
    [wheel] = tmp_path.glob("collab_agents-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for shipped in ("agents/coding.yaml", "tasks/data/tldr.jsonl", "tasks/rewards/code.yaml"):
        assert f"collab/library/{shipped}" in names
    assert {"collab/py.typed", "collab/report/assets/base.css"} <= set(names)
    assert not [name for name in names if name.startswith("tests/")]

    run(sys.executable, "-m", "venv", tmp_path / "env", cwd=tmp_path)
    python, empty = tmp_path / "env" / "bin" / "python", tmp_path / "empty"
    empty.mkdir()
    constraints = ROOT / "constraints.txt"
    run(python, "-m", "pip", "install", *quiet, "-c", constraints, wheel, cwd=empty)
    assert str(tmp_path) in run(python, "-c", "import collab; print(collab.__file__)", cwd=empty)

    collab = tmp_path / "env" / "bin" / "collab"
    assert "coding-discussion" in run(collab, "teams", cwd=empty)
    lines = run(collab, "run", "coding", "--task", "humaneval/12", "--json", cwd=empty)
    events = [json.loads(line) for line in lines.splitlines()]
    assert events[0]["type"] == "run.started"
    assert events[-1]["type"] == "run.finished"
    assert events[-1]["summary"]["failed"] == 0
    assert (empty / "runs").is_dir()
