"""Names in a recipe are looked up next to its file, then in the current folder."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from collab.cli.app import app
from collab.recipe import load_recipe, load_task
from collab.serving.teams import read_teams
from collab.study.spec import cells_of, load_study

TEAM = """\
agents:
  {agent}:
    prompt: "{{{{ task.prompt }}}}"
protocol: single
"""
REWARD = "parts:\n  code: {use: tests}\n"


def collab(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture(scope="module")
def new_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new project made by `collab init`, with a trainer."""
    folder = tmp_path_factory.mktemp("begun") / "mine"
    assert collab("init", str(folder)).exit_code == 0
    (folder / "trainers").mkdir()
    (folder / "trainers" / "my-trainer.yaml").write_text("extends: magrpo\n")
    return folder


@pytest.fixture
def parent_folder(new_project: Path, here: Path) -> Path:
    """A folder with a new project in `mine/`, as the current folder."""
    shutil.copytree(new_project, here / "mine")
    return here


@pytest.mark.parametrize(
    "line",
    [
        "run mine/recipe.yaml",
        "run mine/recipe.yaml --task my-task/0",
        "run mine/agents/my-team.yaml --task my-task/0",
        "eval mine/recipe.yaml",
    ],
)
def test_names_are_looked_up_next_to_the_recipe(parent_folder: Path, line: str) -> None:
    result = collab(*line.split(), "--model", "echo", "--dry-run")
    assert result.exit_code == 0, result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["text", "environment"])
def test_functions_are_looked_up_in_their_suites_project(parent_folder: Path, kind: str) -> None:
    assert collab("init", "other", "--kind", kind).exit_code == 0
    result = collab("run", "other/recipe.yaml", "--model", "echo")
    assert result.exit_code == 0, result.stderr
    assert "warning" not in result.stderr


def test_trainer_is_looked_up_next_to_its_recipe(parent_folder: Path) -> None:
    trained = load_recipe("mine/recipe.yaml", trainer="my-trainer").trainer
    assert trained is not None
    assert trained.name == "my-trainer"
    line = "train mine/recipe.yaml --trainer my-trainer --model echo --dry-run"
    assert "its engine 'echo' has no weights" in collab(*line.split()).stderr


def test_probe_looks_the_team_up_next_to_its_recipe(parent_folder: Path) -> None:
    result = collab("probe", "mine/recipe.yaml", "--model", "echo", "--samples", "2")
    assert result.exit_code == 0, result.stderr


def test_served_team_is_looked_up_next_to_its_recipe(parent_folder: Path) -> None:
    recipe = read_teams({"mine": "mine/recipe.yaml"})["mine"]
    assert recipe.team.name == "my-team"


def test_study_looks_names_up_next_to_its_file(parent_folder: Path) -> None:
    study = Path("mine/study.yaml")
    study.write_text("recipe: my-team\ntasks: [my-task]\ntrainers: [my-trainer]\ntokens: 10\n")
    cell = cells_of(load_study(study))[0]
    assert cell.name == "my-task-my-trainer-seed-0"
    recipe, _ = cell.read()
    assert (recipe.team.name, recipe.task and recipe.task.name) == ("my-team", "my-task")


def test_project_of_the_recipe_precedes_the_current_folder(parent_folder: Path) -> None:
    for folder, agent in ((parent_folder, "here"), (parent_folder / "mine", "beside")):
        (folder / "agents").mkdir(exist_ok=True)
        (folder / "agents" / "twice.yaml").write_text(TEAM.format(agent=agent))
    (parent_folder / "agents" / "once.yaml").write_text(TEAM.format(agent="here"))
    Path("mine/twice.yaml").write_text("team: twice\n")
    Path("mine/once.yaml").write_text("team: once\n")
    assert list(load_recipe("mine/twice.yaml").team.agents) == ["beside"]
    assert list(load_recipe("mine/once.yaml").team.agents) == ["here"]
    assert list(load_recipe("twice").team.agents) == ["here"]


def test_reward_is_looked_up_next_to_the_recipe(parent_folder: Path) -> None:
    rewards = Path("mine/tasks/rewards")
    rewards.mkdir()
    (rewards / "my-reward.yaml").write_text(REWARD)
    recipe = load_recipe("mine/recipe.yaml", settings=["task.reward=my-reward"])
    assert recipe.task is not None
    assert recipe.task.reward is not None
    assert list(recipe.task.reward.parts) == ["code"]


def test_suite_beside_a_folder_of_rewards_is_in_the_project(parent_folder: Path) -> None:
    Path("mine/tasks/rewards").mkdir()
    Path("mine/tasks/longer.yaml").write_text("extends: my-task\n")
    assert load_task("mine/tasks/longer.yaml").name == "longer"


def test_suite_for_files_is_looked_up_next_to_the_team(parent_folder: Path) -> None:
    team = TEAM.format(agent="a") + "suite: ../tasks/plain.yaml\n"
    Path("mine/agents/plain.yaml").write_text(team)
    suite = "kind: text\nsource: {path: rows.jsonl}\nhidden: [color]\n"
    Path("mine/tasks/plain.yaml").write_text(suite)
    task = load_recipe("mine/agents/plain.yaml", task="other.jsonl").task
    assert task is not None
    assert task.hidden == ("color",)


def test_project_folder_may_be_called_tasks(parent_folder: Path) -> None:
    Path("mine").rename("tasks")
    assert load_recipe("tasks/recipe.yaml").team.name == "my-team"


def test_an_agent_may_be_called_like_a_key_that_names_files(tmp_path: Path) -> None:
    feedback = {"source": "static", "functions": {"path": "find_path", "main": ""}}
    team = {"agents": {"path": {}, "main": {}}, "feedback": [feedback]}
    (tmp_path / "team.yaml").write_text(yaml.safe_dump(team))
    [loaded] = load_recipe(str(tmp_path / "team.yaml")).team.feedback
    assert loaded.functions == {"path": "find_path", "main": ""}  # type: ignore[union-attr]
