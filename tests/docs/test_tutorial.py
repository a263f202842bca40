"""The tutorial's files and commands."""

import json
import re
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.blocks import ENVIRONMENT, blocks, run_here, shell

import collab
from collab.recipe import load_recipe
from collab.recipe.trainer import EvaluationSpec
from collab.trainers.training.check import check_recipe


def write_project(folder: Path) -> None:
    task, team, recipe = blocks("tutorial.md", "yaml")
    files = {
        "tasks/problems.jsonl": blocks("tutorial.md", "json")[0],
        "tasks/colors.yaml": task,
        "rewards.py": blocks("tutorial.md", "python")[0],
        "agents/painters.yaml": team,
        "recipe.yaml": recipe,
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_the_page_names_its_files() -> None:
    page = (Path(__file__).parents[2] / "docs/tutorial.md").read_text()
    for name in ("tasks/problems.jsonl", "tasks/colors.yaml", "rewards.py", "agents/painters.yaml"):
        assert f"`{name}`" in page


def test_the_team_solves_the_task_with_the_right_answers(here: Path) -> None:
    write_project(here)
    (here / "script.yaml").write_text('{"left": [" blue"], "right": [" red"]}')
    episode = collab.load("painters", model="scripted:script.yaml").run("colors/0").episode
    assert not episode.solved
    assert episode.joint_return == 0.5
    (here / "script.yaml").write_text('{"left": [" blue"], "right": [" Blue"]}')
    assert collab.load("painters", model="scripted:script.yaml").run("colors/0").episode.solved


def test_recipe_of_the_tutorial_can_be_trained(here: Path) -> None:
    write_project(here)
    spec = check_recipe(load_recipe("recipe.yaml"))
    assert (spec.steps, spec.evaluation) == (10, EvaluationSpec(samples=8))


def make_smaller(recipe: Path) -> None:
    """Reduce training to one short step."""
    data = yaml.safe_load(recipe.read_text())
    data["trainer"] |= {"steps": 1, "group_size": 4, "tasks_per_step": 1}
    data["trainer"]["evaluation"] = {"samples": 2}
    recipe.write_text(yaml.safe_dump(data))


@pytest.mark.slow
def test_every_command_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *rest = blocks("tutorial.md", "sh")
    shell(first, tmp_path)
    folder = tmp_path / "painting"
    write_project(folder)
    make_smaller(folder / "recipe.yaml")
    for block in rest:
        if "collab serve" not in block:
            run_here(block.replace("--samples 8", "--samples 2"), folder)
    assert (folder / "first.html").exists()
    assert "color" not in (answer := served(folder)), "the answer contains no hidden field"
    assert json.loads(answer)["choices"][0]["message"]["content"]
    monkeypatch.chdir(folder)
    exec(blocks("tutorial.md", "python")[1], {})
    assert capsys.readouterr().out.strip()


def served(folder: Path) -> str:
    """The answer to the page's request, from the page's server on a free port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    [command] = [block for block in blocks("tutorial.md", "sh") if "collab serve" in block]
    [request] = blocks("tutorial.md", "bash")
    server: subprocess.Popen[Any] = subprocess.Popen(
        command.replace("8000", port).split(), cwd=folder, env=ENVIRONMENT
    )
    try:
        ready = f"curl --silent --fail http://127.0.0.1:{port}/ready"
        for _ in range(120):
            if subprocess.run(ready.split(), capture_output=True, check=False).returncode == 0:
                return shell(re.sub("8000", port, request), folder)
            time.sleep(0.5)
        pytest.fail("the server is not ready after 60 s")
    finally:
        server.terminate()
        server.wait(60)
