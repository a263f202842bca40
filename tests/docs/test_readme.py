"""Every command and every example of the README, run."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support.tiny_words import save_tiny
from support.trainer_recipes import WORDS

import collab
from collab.recipe import TaskSpec, TeamSpec

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "README.md").read_text()

AUX = "def aux(xs):\n    return max(map(len, xs))\n"
MAIN = (
    "def longest(strings):\n    if not strings:\n        return None\n"
    "    longest_length = aux(strings)\n"
    "    return next(s for s in strings if len(s) == longest_length)\n"
)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    return [line for block in blocks("sh") for line in block.splitlines()]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "aux.py").write_text(AUX)
    (tmp_path / "main.py").write_text(MAIN)
    (tmp_path / "solution.py").write_text(AUX + MAIN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shell(script: str, folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_make_has_the_readmes_targets() -> None:
    made = [line for line in commands() if line.startswith("make ")]
    assert made == ["make run", "make test"]
    for line in made:
        subprocess.run([*line.split(), "--dry-run"], cwd=ROOT, check=True, capture_output=True)


@pytest.mark.slow
def test_every_command_runs(folder: Path) -> None:
    (folder / "examples").symlink_to(ROOT / "examples")
    for block in blocks("sh"):
        if not block.startswith("make "):
            shell(block, folder)
    runs = [*folder.glob("runs/*/run.json"), *folder.glob("my-project/runs/*/run.json")]
    assert len(runs) >= 6
    assert {json.loads(run.read_text())["status"] for run in runs} == {"done"}


def test_scoring_commands(folder: Path) -> None:
    scoring = [line for line in commands() if line.startswith("collab score")]
    whole, parts = [shell(line, folder) for line in scoring]
    assert "reward 4.00 of 4.00" in whole
    assert json.loads(parts)["reward"] == 4.0


def test_the_examples_in_yaml_are_valid(folder: Path) -> None:
    team, task = map(yaml.safe_load, blocks("yaml"))
    TeamSpec.model_validate(team)
    TaskSpec.model_validate(task)


def test_the_team_and_the_task_run_together(folder: Path) -> None:
    team, task = blocks("yaml")
    (folder / "agents").mkdir()
    (folder / "tasks").mkdir()
    (folder / "agents" / "editors.yaml").write_text(team)
    (folder / "tasks" / "mine.yaml").write_text(task)
    problem = {"task_id": "0", "prompt": "Name a colour.", "answer": "colour"}
    (folder / "tasks" / "problems.jsonl").write_text(json.dumps(problem) + "\n")
    (folder / "rewards.py").write_text(blocks("python")[0])
    episode = collab.load("editors", model="echo").run("mine/0").episode
    assert episode.failure is None
    assert episode.solved, "the echo names the answer"
    assert (len(episode.turns), episode.joint_return) == (1, 4.0)
    score = episode.turns[0].score
    assert score
    assert score.reward == 2.0


def test_the_embedding_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = next(block for block in blocks("python") if "collab.load" in block)
    exec(code.replace("seed=1", "seed=1, model='echo'"), {})
    assert len(capsys.readouterr().out.splitlines()) >= 4


def test_rows_and_a_function_train_a_team(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    code = next(block for block in blocks("python") if "collab.train" in block)
    tiny = save_tiny(tmp_path_factory.mktemp("tiny"), WORDS)
    small = f"model={{'name': {str(tiny)!r}, 'device': 'cpu'}}, max_new_tokens=2, steps=2"
    exec(code.replace("steps=2", small), {})
    assert "<Rollout: 1 episode" in capsys.readouterr().out


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", TEXT):
        assert target.startswith("https://") or (ROOT / target).exists(), target
