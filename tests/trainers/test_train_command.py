"""`collab train`: output, exit status, dry run, and existing runs."""

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from support.library import TEAMS, suite_of
from support.shares import one_in
from support.trainer_recipes import make_game
from typer.testing import CliRunner

from collab import read_metrics
from collab.cli.app import app
from collab.models.local.fast.prepacked_weights import can_pack
from collab.recipe import Recipe, load_recipe
from collab.recipe.writing import dump_recipe
from collab.runs.about import read_about
from collab.trainers import TrainingRun
from collab.trainers.training.plan.plan import make_plan


@pytest.fixture
def folder(tiny_words: Path, tmp_path: Path) -> Path:
    recipe = make_game(tiny_words, tmp_path, steps=2, evaluation={"samples": 1})
    (tmp_path / "r.yaml").write_text(dump_recipe(recipe))
    return tmp_path


def collab(folder: Path, *arguments: str) -> Any:
    """Run `collab train` in the folder, in this process, because a new one would import torch."""
    with contextlib.chdir(folder):
        return CliRunner().invoke(app, ["train", *arguments])


def test_json_output_lists_the_events_of_a_run(folder: Path) -> None:
    found = collab(folder, "r.yaml", "--out", "run", "--json")
    assert found.exit_code == 0, found.stderr
    events = [json.loads(line) for line in found.stdout.splitlines()]
    kinds = [event["type"] for event in events]
    assert kinds[0] == "run.started"
    assert kinds[-1] == "run.finished"
    assert kinds.count("step.finished") == 2
    assert "training.progress" not in kinds
    assert kinds.count("evaluation.finished") == 2
    assert events[-1]["summary"]["gains"]["sampled"]["tasks"] == 4


def test_a_dry_run_shows_the_plan_and_loads_nothing(folder: Path) -> None:
    found = collab(folder, "r.yaml", "--dry-run", "--json", "--set", "trainer.group_size=6")
    assert found.exit_code == 0, found.stderr
    data = json.loads(found.stdout)
    assert (data["episodes_per_step"], data["responses_per_step"]) == (12, 24)
    assert data["memory_total"] == sum(data["memory"].values())
    assert data["recipe"]["trainer"]["group_size"] == 6
    assert not list(folder.glob("runs*"))


def test_dry_run_ends_with_the_plan_and_omits_zeros(folder: Path) -> None:
    alone = collab(folder, "r.yaml", "--dry-run").stdout
    found = collab(folder, "r.yaml", "--show-recipe")
    assert found.exit_code == 0, found.stderr
    recipe, _, plan = found.stdout.rpartition("\n\n")
    assert plan == alone
    assert "  round 1: a, b at the same time\n" in plan
    assert "scoring:" not in plan
    assert yaml.safe_load(recipe)["trainer"]["group_size"] == 4
    assert plan.startswith("magrpo: ")
    assert "\n2 steps" in plan
    assert "  Python and its libraries " in plan
    assert " 0.000 GB" not in plan


def test_training_begins_with_its_settings_and_warnings(folder: Path) -> None:
    discuss = "agents.a.discuss=Discuss it."
    settings = (discuss, "trainer.steps=1", "trainer.tasks_per_step=90")
    found = collab(folder, "r.yaml", "--out", "run", *(w for s in settings for w in ("--set", s)))
    assert found.exit_code == 0, found.stderr
    assert "magrpo: 8 tasks per step, 4 samples per task, learning rate 0.0" in found.stdout
    assert "team.agents.a.discuss is not used" in found.stdout
    changed = ("trainer.steps=2", "trainer.learning_rate=0.25")
    found = collab(folder, "--resume", "run", *(w for s in changed for w in ("--set", s)))
    assert found.exit_code == 0, found.stderr
    about = read_about(folder / "run")
    assert "learning rate 0.25" in about["trainer"]
    assert about["warnings"]


def test_agents_with_their_own_sampling_are_noted(folder: Path) -> None:
    own = "agents.a.sampling.temperature=0.5"
    given = "sampling.temperature=0.9"
    found = collab(folder, "r.yaml", "--dry-run", "--set", own, "--set", given)
    assert f"note: the setting {given} is not used for a, because" in found.stderr


def test_the_process_that_starts_the_ranks_leaves_notes_to_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("collab.trainers.ranks.launching.launch", lambda *_: 0)
    settings = ("agents.a.sampling.temperature=0.5", "sampling.temperature=0.9")
    found = collab(folder, "r.yaml", "--ranks", "2", *(w for s in settings for w in ("--set", s)))
    assert found.exit_code == 0, found.stderr
    assert "note:" not in found.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["r.yaml", "--set", "trainer.group_sise=3"], "did you mean 'group_size'?"),
        (["r.yaml", "--set", "trainer.group_size=1"], "nothing to compare"),
        (["--resume", "run", "--seed", "3"], "change them with --set"),
        (["r.yaml", "-t", "words/0-1", "-t", "words/3"], "as words/0-3,10-12"),
    ],
)
def test_bad_usage_is_status_2(folder: Path, arguments: list[str], message: str) -> None:
    found = collab(folder, *arguments)
    assert found.exit_code == 2
    assert message in found.stderr
    assert "Traceback" not in found.stderr


def test_a_finished_run_is_not_trained_again(folder: Path) -> None:
    collab(folder, "r.yaml", "--out", "run")
    before = (folder / "run" / "run.json").read_bytes()
    found = collab(folder, "--resume", "run")
    assert found.exit_code == 0, found.stderr
    assert "run is finished" in found.stderr
    assert "trainer.steps=N" in found.stderr
    assert found.stdout.startswith("2 steps in ")
    assert "sampled" in found.stdout
    assert (folder / "run" / "run.json").read_bytes() == before
    found = collab(folder, "--resume", "run", "--set", "trainer.steps=3")
    assert "step 3/3" in found.stdout


def test_run_that_ended_by_its_tokens_names_them(folder: Path) -> None:
    limit = ("--set", "trainer.steps=null", "--set", "trainer.tokens=20")
    collab(folder, "r.yaml", *limit, "--out", "run")
    assert "add --set trainer.tokens=N" in collab(folder, "--resume", "run").stderr


NOTHING = "def nothing(group):\n    return {}\n"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["trainer.algorithm=nothing.py:nothing"], "the algorithm returned no weights"),
        (
            [
                *("task.reward.parts.a_left.weight=0", "task.reward.parts.b_left.weight=0"),
                "sampling.max_new_tokens=1",
            ],
            "all returns of each group are equal; ",
        ),
    ],
)
def test_steps_without_anything_to_learn_are_warned_about(
    folder: Path, settings: list[str], message: str
) -> None:
    (folder / "nothing.py").write_text(NOTHING)
    chosen = [part for setting in settings for part in ("--set", setting)]
    found = collab(folder, "r.yaml", "--out", "run", *chosen)
    assert found.exit_code == 0, found.stderr
    assert f"warning: nothing was learned: {message}" in found.stdout
    assert ("responses are truncated" in found.stdout) == message.endswith("; ")
    assert "warning: training skipped 2 of 2 steps" in found.stdout
    assert json.loads((folder / "run" / "run.json").read_text())["summary"]["unlearned"] == 2


def test_task_address_selects_the_training_tasks(folder: Path) -> None:
    (folder / "tasks").mkdir()
    suite = load_recipe(str(folder / "r.yaml")).model_dump(mode="json", exclude_none=True)["task"]
    (folder / "tasks" / "sums.yaml").write_text(yaml.safe_dump(suite))
    marloo = ("--set", "trainer={algorithm: marloo, steps: 1}")
    found = collab(folder, "r.yaml", "--task", "sums/0-2", *marloo, "--dry-run", "--json")
    assert found.exit_code == 0, found.stderr
    plan = json.loads(found.stdout)
    assert plan["training_tasks"] == 3
    assert plan["recipe"]["trainer"]["tasks"] == "0-2"


RAISES = "def raises(group):\n    raise ValueError('no')\n"


def test_run_that_failed_before_its_first_step_can_be_restarted(folder: Path) -> None:
    (folder / "raises.py").write_text(RAISES)
    raising = ("--set", "trainer.algorithm=raises.py:raises")
    assert collab(folder, "r.yaml", "--out", "run", *raising).exit_code == 1
    found = collab(folder, "r.yaml", "--out", "run")
    assert found.exit_code == 0, found.stderr
    rows = read_metrics(folder / "run")
    assert [row["step"] for row in rows if "return/mean" in row] == [1, 2]
    found = collab(folder, "r.yaml", "--out", "run")
    assert "run already contains a run" in found.stderr


def test_a_folder_that_holds_a_run_is_refused_before_models_load(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collab(folder, "r.yaml", "--out", "run", "--set", "trainer.steps=1")

    def made(*_: object, **__: object) -> None:
        raise AssertionError("a training was made")

    monkeypatch.setattr(TrainingRun, "__init__", made)
    assert "run already contains a run" in collab(folder, "r.yaml", "--out", "run").stderr


def test_a_team_without_a_trainer_is_trained_by_magrpo(folder: Path) -> None:
    data = load_recipe(str(folder / "r.yaml")).model_dump(exclude={"trainer"})
    (folder / "team.yaml").write_text(dump_recipe(Recipe.model_validate(data)))
    few = ["--set", "trainer.steps=3", "--dry-run", "--json"]
    magrpo, file_trainer, other = (
        json.loads(collab(folder, *arguments, *few).stdout)["recipe"]["trainer"]
        for arguments in (["team.yaml"], ["r.yaml"], ["team.yaml", "--trainer", "marloo"])
    )
    assert (magrpo["name"], magrpo["steps"]) == ("magrpo", 3)
    assert (file_trainer["name"], file_trainer["learning_rate"]) == ("", 1e-2)
    assert other["name"] == "marloo"


@pytest.mark.parametrize("policies", ["adapters", "full"])
def test_files_have_default_permissions(tiny_words: Path, tmp_path: Path, policies: str) -> None:
    recipe = make_game(tiny_words, tmp_path, steps=1, policies=policies)
    asyncio.run(TrainingRun(recipe, tmp_path / "run").run())
    (tmp_path / "plain").touch()
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    modes = {path.name: path.stat().st_mode for path in files}
    assert set(modes.values()) == {(tmp_path / "plain").stat().st_mode}, modes


def test_plan_counts_the_actual_parameters(tiny_words: Path, tmp_path: Path) -> None:
    from collab.trainers.learner.policy import open_policies

    for policies in ("adapters", "shared_adapter", "full"):
        recipe = make_game(tiny_words, tmp_path, policies=policies)
        assert recipe.trainer is not None
        opened = open_policies(recipe, recipe.trainer)
        held = {id(p): p for policy in opened for p in policy.engine.module.parameters()}
        trained = [p for policy in opened for p in policy.parameters.values()]
        plan = make_plan(recipe)
        assert plan.parameters == sum(p.numel() for p in held.values())
        assert plan.trainable == sum(p.numel() for p in trained)


def test_plan_counts_packed_weights_on_sampling_devices(tiny_words: Path, tmp_path: Path) -> None:
    def packed(**model: Any) -> int:
        recipe = make_game(tiny_words, tmp_path, group_size=4)
        changed = {"name": "smollm2-135m", "dtype": "float32", "device": "cpu", **model}
        plan = make_plan(Recipe.model_validate({**recipe.model_dump(), "model": changed}))
        return plan.memory["prepacked"]

    expected = 134_479_872 if can_pack(torch.float32, torch.device("cpu")) else 0
    assert packed() == 4 * expected
    assert packed(fast=False) == 0


def test_the_plan_counts_trees_and_discussions(tiny_words: Path, tmp_path: Path) -> None:
    recipe = make_game(tiny_words, tmp_path, turn_structure="tree", group_size=3)
    data = recipe.model_dump()
    data["team"] |= {"turns": 2, "protocol": "discussion"}
    plan = make_plan(Recipe.model_validate(data))
    assert "per step: 18 episodes, 96 responses" in plan.text()
    assert plan.episodes_per_step == 2 * 9
    assert plan.responses_per_step == 2 * (3 + 9) * 2 * 2


def test_plan_counts_no_more_tasks_per_step_than_exist(tiny_words: Path, tmp_path: Path) -> None:
    plan = make_plan(make_game(tiny_words, tmp_path, tasks_per_step=50))
    assert (plan.training_tasks, plan.episodes_per_step, plan.responses_per_step) == (8, 32, 64)


def test_plan_counts_shared_prompts_once(tiny_words: Path, tmp_path: Path) -> None:
    plan = make_plan(make_game(tiny_words, tmp_path, group_size=4))
    new = 3 * plan.responses_per_step
    assert plan.update_tokens_per_step - new == (plan.tokens_per_step - new) / 4


@pytest.mark.parametrize("name", TEAMS[::4])
def test_every_team_of_the_library_can_be_planned(name: str) -> None:
    settings = ["sampling.temperature=0.8"]
    defaults = {"trainer": "magrpo"}
    recipe = load_recipe(name, task=suite_of(name), defaults=defaults, settings=settings)
    plan = make_plan(recipe)
    assert plan.responses_per_step >= 4 * len(recipe.team.agents)
    assert plan.warnings == []


def test_low_temperatures_are_noted(tiny_words: Path, tmp_path: Path) -> None:
    game = make_game(tiny_words, tmp_path)
    cold = load_recipe(game, settings=["sampling.temperature=0.2"])
    (warning,) = make_plan(cold).warnings
    assert warning.startswith("a, b: at temperature 0.2, the episodes of a group hardly differ")
    own = load_recipe(cold, settings=["agents.b.sampling.temperature=0.3"])
    (warning,) = make_plan(own).warnings
    assert "0.2, 0.3" in warning


def test_plan_of_a_sequential_team_counts_what_agents_see(tiny_words: Path, tmp_path: Path) -> None:
    def tokens(protocol: str) -> int:
        data = make_game(tiny_words, tmp_path).model_dump()
        data["team"]["protocol"] = protocol
        data["team"]["agents"]["b"]["prompt"] = "{{ task.text }} {{ others }}"
        return make_plan(Recipe.model_validate(data)).tokens_per_step

    assert tokens("sequential") > tokens("parallel")


def test_the_plan_names_prompts_that_are_too_long(tiny_words: Path, tmp_path: Path) -> None:
    recipe = make_game(tiny_words, tmp_path, evaluation={})
    rows = [{"task_id": str(n), "text": "say " * (400 if n in (2, 9) else 1)} for n in range(12)]
    (tmp_path / "game.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = make_plan(recipe).text()
    for agent in "ab":
        message = f"warning: agent '{agent}': 2 problems (game/2, game/9) cannot be run: a prompt"
        assert message in text


@pytest.mark.parametrize("policies", one_in(2, ["adapters", "full"]))
def test_plan_states_the_disk_space_used(tiny_words: Path, tmp_path: Path, policies: str) -> None:
    trainer = {"steps": 4, "checkpoint_every": 1, "keep_checkpoints": 3, "policies": policies}
    recipe = make_game(tiny_words, tmp_path, **trainer, evaluation={"every": 1, "samples": 1})
    most = 0
    run = tmp_path / "run"

    def see(event: object) -> None:
        nonlocal most
        kinds = ("checkpoints", "adapters", "models")
        files = [path for kind in kinds for path in (run / kind).rglob("*") if path.is_file()]
        most = max(most, sum(path.stat().st_size for path in files))

    asyncio.run(TrainingRun(recipe, run, emit=see).run())
    plan = make_plan(recipe)
    assert plan.checkpoints == 5
    assert 0.5 * plan.disk < most < 1.5 * plan.disk + 200_000  # allow for file headers
    assert f"disk: {plan.disk / 1e9:.2f} GB, 5 checkpoints and the team" in plan.text()


def test_checkpointing_and_small_batches_need_less_memory(tiny_words: Path, tmp_path: Path) -> None:
    def activations(**options: object) -> int:
        game = make_game(tiny_words, tmp_path, group_size=32, **options)
        small = game.model.model_copy(
            update={"batch_tokens": 256}
        )  # small, so learning uses the most memory
        return make_plan(game.model_copy(update={"model": small})).memory["activations"]

    assert activations(gradient_checkpointing=True) < activations()
    assert activations(micro_batch_tokens=16) < activations()
