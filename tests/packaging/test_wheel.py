"""The wheel and its requirements, in a new environment and an empty folder."""

import json
import subprocess
import sys
import zipfile
from importlib.metadata import distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]


def run(*command: object, cwd: Path) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def required_packages(wheel: Path) -> set[str]:
    """The packages that a wheel requires, directly and indirectly."""
    [about] = distributions(path=[str(wheel)])
    found: set[str] = set()
    requirements = about.requires or []
    while requirements:
        requirement = Requirement(requirements.pop())
        if requirement.name not in found and (
            requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        ):
            found.add(requirement.name)
            requirements += distribution(requirement.name).requires or []
    return found


def link_packages(packages: set[str], site: Path) -> None:
    """Link the files of installed packages instead of installing them again."""
    for name in packages:
        for file in distribution(name).files or []:
            target = site / file.parts[0]
            if file.parts[0] != ".." and not target.is_symlink():
                target.symlink_to(Path(str(distribution(name).locate_file(file.parts[0]))))


@pytest.mark.slow
def test_installed_wheel_runs_a_team(tmp_path: Path) -> None:
    quiet = ("--quiet", "--disable-pip-version-check")
    run(sys.executable, "-m", "pip", "wheel", *quiet, "--no-deps", "-w", tmp_path, ROOT, cwd=ROOT)
    [wheel] = tmp_path.glob("collab_agents-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for shipped in ("agents/coding.yaml", "tasks/data/tldr.jsonl", "tasks/rewards/code.yaml"):
        assert f"collab/library/{shipped}" in names
    assert {"collab/py.typed", "collab/report/assets/base.css"} <= set(names)
    assert not [name for name in names if name.startswith("tests/")]

    env, empty = tmp_path / "env", tmp_path / "empty"
    run(sys.executable, "-m", "venv", "--without-pip", env, cwd=tmp_path)
    python = env / "bin" / "python"
    [site] = env.glob("lib/*/site-packages")
    link_packages(required_packages(wheel), site)
    empty.mkdir()
    pip = (sys.executable, "-m", "pip", "--python", python)
    run(*pip, "install", *quiet, "--no-deps", wheel, cwd=empty)
    run(*pip, "check", cwd=empty)
    assert str(tmp_path) in run(python, "-c", "import collab; print(collab.__file__)", cwd=empty)

    collab = env / "bin" / "collab"
    assert "coding-discussion" in run(collab, "teams", cwd=empty)
    task = ("--task", "humaneval/12", "--set", "team.sampling.max_new_tokens=8")
    lines = run(collab, "run", "coding", *task, "--json", cwd=empty)
    events = [json.loads(line) for line in lines.splitlines()]
    assert events[0]["type"] == "run.started"
    assert events[-1]["type"] == "run.finished"
    assert events[-1]["summary"]["failed"] == 0
    assert (empty / "runs").is_dir()
