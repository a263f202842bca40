"""A run folder contains all that its recipe names, so it works after it was moved."""

import json
import os
import shutil
from pathlib import Path

import pytest
import yaml
from support.word_project import make_project
from typer.testing import CliRunner

import collab
from collab.cli.app import app
from collab.recipe import load_recipe

TEAM = """\
turns: 2
feedback: ["feedback.py:tell"]
join: "pieces/joins.py:join"
agents:
  a: {prompt: "Say {{ task.word }}.", parser: "pieces/parsers.py:parse"}
  b: {prompt: "Say {{ task.word }}."}
"""
JOINS = """\
import words
from more.glue import SPACE
from collab.agents import Joint


def join(artifacts, problem):
    return Joint(SPACE.join(words.shout(text) for text in artifacts.values()), {})
"""
PARSERS = """\
def parse(response):
    return response.strip()
"""
FEEDBACK = """\
def tell(outcome):
    return {agent: "Again." for agent in outcome.agents}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    make_project(folder, TEAM, n_words=3)
    pieces = folder / "pieces"
    (pieces / "more").mkdir(parents=True)
    (pieces / "joins.py").write_text(JOINS)
    (pieces / "parsers.py").write_text(PARSERS)
    (pieces / "words.py").write_text("def shout(text):\n    return text.upper()\n")
    (pieces / "more" / "__init__.py").write_text("")
    (pieces / "more" / "glue.py").write_text('SPACE = " "\n')
    (folder / "feedback.py").write_text(FEEDBACK)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def moved_run(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that was moved away from its deleted project."""
    collab.load("pair", model="echo").run("words/1", out="run")
    elsewhere = tmp_path / "moved"
    elsewhere.mkdir()
    shutil.move(project / "run", elsewhere / "run")
    shutil.rmtree(project)
    monkeypatch.chdir(elsewhere)
    return elsewhere / "run"


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.output


def test_recipe_names_nothing_outside_the_folder(moved_run: Path) -> None:
    text = (moved_run / "recipe.yaml").read_text()
    assert "/" + "project" not in text
    recipe = yaml.safe_load(text)
    assert recipe["team"]["join"].startswith("functions")
    assert recipe["task"]["source"]["path"] == "data/words.jsonl"
    for file in ("words.py", "more/glue.py"):
        assert list(moved_run.glob(f"functions*/{file}")), file


@pytest.mark.parametrize(
    "command",
    [["run"], ["run", "--task", "words/1"], ["eval", "--task", "words/0-2"], ["replay"]],
    ids=" ".join,
)
def test_a_moved_folder_works(moved_run: Path, command: list[str]) -> None:
    status, output = run(command[0], str(moved_run), *command[1:])
    assert status == 0, output
    status, output = run(command[0], os.path.relpath(moved_run), *command[1:])
    assert status == 0, output


def test_moved_folder_uses_its_own_functions(moved_run: Path) -> None:
    episode = collab.load(str(moved_run)).run("words/1").episode
    assert episode.turns[0].joint == "SAY W1. SAY W1."


def test_run_of_a_run_is_self_contained_too(moved_run: Path, tmp_path: Path) -> None:
    collab.load(str(moved_run)).run("words/1", out="second")
    shutil.rmtree(moved_run)
    shutil.move("second", tmp_path / "third")
    assert collab.load(str(tmp_path / "third")).run("words/1").episode.score


def test_two_files_with_the_same_name_are_kept_separate(project: Path) -> None:
    (project / "pieces" / "feedback.py").write_text("def parse(response):\n    return 'mine'\n")
    settings = ["agents.b.parser=pieces/feedback.py:parse"]
    collab.load("pair", model="echo", settings=settings).run("words/1", out="run")
    shutil.rmtree(project / "pieces")
    (project / "feedback.py").unlink()
    episode = collab.load("run").run("words/1").episode
    assert episode.turns[0].joint == "SAY W1. MINE"
    assert episode.turns[0].feedback["a"][0].text == "Again."


def test_two_runs_with_modules_of_the_same_name_use_their_own(project: Path) -> None:
    collab.load("pair", model="echo").run("words/1", out="loud")
    (project / "pieces" / "words.py").write_text("def shout(text):\n    return text.lower()\n")
    collab.load("pair", model="echo").run("words/1", out="quiet")
    joints = [collab.load(name).run("words/1").episode.turns[0].joint for name in ("loud", "quiet")]
    assert joints == ["SAY W1. SAY W1.", "say w1. say w1."]


def test_local_module_imported_inside_a_function_is_copied(project: Path) -> None:
    body = "    import beside\n    from more.deep import glue\n    return glue.one * beside.one\n"
    (project / "parts.py").write_text(f"def right(context):\n{body}")
    (project / "beside.py").write_text("one = 1.0\n")
    (project / "more" / "deep").mkdir(parents=True)
    (project / "more" / "__init__.py").write_text("")
    (project / "more" / "deep" / "glue.py").write_text("from ..other import one\n")
    (project / "more" / "other.py").write_text("one = 1.0\n")
    status, output = run("run", "pair", "--task", "words/0", "-m", "echo", "--out", "run")
    assert status == 0, output
    for name in ("parts.py", "beside.py", "more"):
        (project / name).rename(project / f"gone-{name}")
    status, output = run("run", "run", "--out", "again")
    assert status == 0, output


def test_a_team_and_a_run_with_the_same_reward_can_be_compared(project: Path) -> None:
    collab.load("pair", model="echo").run("words/1", out="first")
    status, output = run("eval", "pair", "first", "--task", "words", "-m", "echo", "--json")
    assert status == 0, output
    (project / "parts.py").write_text("def right(context):\n    return 0.0\n")
    status, output = run("eval", "pair", "first", "--task", "words", "-m", "echo")
    assert status == 2
    assert "or the files of these rewards, differ" in output


def test_paths_are_relative_to_the_file_that_names_them(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = (project / "tasks" / "words.yaml").read_text()
    (project / "tasks" / "words.yaml").write_text(task.replace("parts.py", "scores.py"))
    shutil.move(project / "parts.py", project / "tasks" / "scores.py")
    reward = yaml.safe_load((project / "tasks" / "words.yaml").read_text())["reward"]
    (project / "tasks" / "reward.yaml").write_text(yaml.safe_dump(reward))
    (project / "answers.yaml").write_text("[one, two]\n")
    (project / "recipe.yaml").write_text(
        "team: agents/pair.yaml\nmodel: scripted:answers.yaml\n"
        "task: {extends: tasks/words.yaml, reward: tasks/reward.yaml}\n"
    )
    monkeypatch.chdir(tmp_path)
    recipe = load_recipe("project/recipe.yaml")
    assert recipe.task is not None
    assert recipe.task.reward is not None
    assert recipe.task.reward.parts["right"].use == "project/tasks/scores.py:right"
    assert recipe.task.source.path == str(project / "tasks" / "words.jsonl")
    assert recipe.model.name == str(project / "answers.yaml")
    assert recipe.team.join == "project/pieces/joins.py:join", (
        "it is not next to the team, so it is looked up in the project"
    )


def test_script_is_copied_into_the_run(project: Path, tmp_path: Path) -> None:
    (project / "answers.yaml").write_text("[one, two, three, four]\n")
    collab.load("pair", model="scripted:answers.yaml").run("words/1", out="run")
    (project / "answers.yaml").unlink()
    assert collab.load("run").run("words/1").episode.score
    about = json.loads((project / "run" / "run.json").read_text())
    assert about["status"] == "done"


SAVES_ITSELF = """\
from pathlib import Path

SAVED = 0


def right(context):
    return 1.0, f"saved {SAVED} times"


for file in ("parts.py", "tasks/words.jsonl"):
    with Path(file).open("a") as stream:
        stream.write("SAVED += 1\\n" if file == "parts.py" else "\\n")
"""


def test_a_run_keeps_the_bytes_that_it_read_of_a_file(project: Path) -> None:
    (project / "parts.py").write_text(SAVES_ITSELF)
    rows = (project / "tasks" / "words.jsonl").read_bytes()
    [episode] = collab.load("pair", model="echo").run("words/1", out="run").episodes
    assert (project / "run" / "data" / "words.jsonl").read_bytes() == rows
    [function] = (project / "run").glob("functions*/parts.py")
    times = function.read_text().count("\nSAVED += 1")
    assert f"saved {times} times" in episode.model_dump_json()
