"""Training that cannot be right stops and says why."""

import asyncio
import json
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.trainer_recipes import changed, make_game, steps_of
from typer.testing import CliRunner

from collab.cli.app import app
from collab.errors import CollabError, RecipeError, RecordError, TrainingError
from collab.recipe import Recipe
from collab.recipe.writing import dump_recipe
from collab.records import read_episodes
from collab.trainers import TrainingRun
from collab.trainers.credit import PerGroup
from collab.trainers.credit.magrpo import magrpo
from collab.trainers.learner.learner import Learner
from collab.trainers.training.checkpoints import Checkpoints

REWARDS = """\
import time
def raises(context): raise ValueError("broken")
def nan(context): return float("nan")
def blocks(context): time.sleep(1); return 1.0
"""


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("raises", r"rewards.py:2: ValueError: broken"),
        ("nan", "returned nan"),
        ("blocks", "did not finish within 0.2 s"),
    ],
)
def test_a_reward_that_fails_ends_training_with_its_reason(
    tiny_words: Path, here: Path, part: str, message: str
) -> None:
    (here / "rewards.py").write_text(REWARDS)
    data = make_game(tiny_words, here).model_dump()
    data["task"]["reward"] = {"parts": {part: {"use": f"rewards.py:{part}"}}, "seconds": 0.2}
    with pytest.raises(TrainingError, match=f"8 of 8 episodes failed.*{message}"):
        asyncio.run(TrainingRun(Recipe.model_validate(data), here / "run").run())
    about = json.loads((here / "run" / "run.json").read_text())
    assert about["status"] == "failed"
    assert set(about["attention"]) == {"a", "b"}
    failures = [episode.failure for episode in read_episodes(here / "run")]
    assert len(failures) % 8 == 0
    assert {failure and failure.type for failure in failures} == {"RewardError"}
    assert part != "raises" or 'ValueError("broken")' in str(failures[0] and failures[0].traceback)


def test_exception_of_an_algorithm_is_recorded_in_the_run(tiny_words: Path, here: Path) -> None:
    (here / "mine.py").write_text("def broken(group):\n    return group.nothing\n")
    recipe = make_game(tiny_words, here, algorithm="mine.py:broken")
    with pytest.raises(TrainingError, match=r"'mine.py:broken': mine\.py:2: AttributeError"):
        asyncio.run(TrainingRun(recipe, here / "run").run())
    failure = json.loads((here / "run" / "run.json").read_text())["failure"]
    assert "return group.nothing" in failure["traceback"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("team.join", "mine.py:nothing"),
        ("team.agents.a.parser", "mine.py:nothing"),
        ("team.feedback", ["mine.py:nothing"]),
        ("task.reward.parts", {"it": {"use": "mine.py:nothing"}}),
        ("trainer.algorithm", "mine.py:nothing"),
    ],
)
def test_functions_with_a_wrong_signature_are_refused_before_any_work(
    game: Recipe, here: Path, path: str, value: Any
) -> None:
    (here / "mine.py").write_text("def nothing(): ...\n")
    with pytest.raises(RecipeError, match="is called with"):
        TrainingRun(changed(game, path, value), here / "run")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("trainer", None, "has no trainer"),
        ("task", None, "the recipe has no task"),
        ("team.agents.a.model", "echo", "engine 'echo' has no weights here"),
        ("sampling.temperature", 0.0, "samples at temperature 0"),
        ("model.dtype", "float16", "float16, .* set model.dtype to bfloat16 or float32"),
        (
            "team.agents.b.model",
            {"engine": "vllm", "name": "smollm2-135m", "dtype": "float16"},
            "set agents.b.model.dtype to bfloat16 or float32",
        ),
        ("trainer.algorithm", "grpo", "unknown algorithm 'grpo'"),
        ("trainer.group_size", 1, "group_size 1 leaves 'magrpo' nothing to compare"),
        ("trainer.local_parts", {"c": ["a_left"]}, "unknown agent"),
        ("trainer.local_parts", {"a": ["a_lft"]}, "did you mean 'a_left'"),
        ("trainer.tasks", "train,test", "both trained on and held out"),
        ("trainer.group_size", 10**12, "group_size: more than 1,000,000 episodes"),
        ("trainer.evaluation.samples", 10**12, "samples: more than 1,000,000 episodes"),
        ("team.turns", 1000, "team.turns of a tree: more than 1,000,000 episodes"),
    ],
)
def test_untrainable_recipes_are_refused_with_the_reason(
    tiny_words: Path, tmp_path: Path, path: str, value: Any, message: str
) -> None:
    recipe = changed(make_game(tiny_words, tmp_path, evaluation={}), path, value)
    if path == "team.turns":
        recipe = changed(recipe, "trainer.turn_structure", "tree")
    with pytest.raises(CollabError, match=message):
        TrainingRun(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("path", "value"), [("sampling.top_p", 0.9), ("sampling.top_k", 5)])
def test_kl_needs_whole_sampling(tiny_words: Path, tmp_path: Path, path: str, value: Any) -> None:
    recipe = changed(make_game(tiny_words, tmp_path, kl_coef=0.1), path, value)
    with pytest.raises(RecipeError, match=r"set kl_coef to 0, or top_p=1.0 and top_k=0"):
        TrainingRun(recipe, tmp_path / "run")


def test_truncated_sampling_agrees_with_the_trainer(tiny_words: Path, tmp_path: Path) -> None:
    recipe = changed(make_game(tiny_words, tmp_path, steps=2), "sampling.top_p", 0.7)
    asyncio.run(TrainingRun(recipe, tmp_path / "run").run())
    for row in steps_of(tmp_path / "run"):
        assert row["mismatch"] < 1e-5
        assert row["agent/a/outside_support"] == row["agent/b/outside_support"] == 0


def test_whole_model_in_vllm_is_refused_with_the_key_to_set(game: Recipe, tmp_path: Path) -> None:
    model = {"engine": "vllm", "name": "smollm2-135m"}
    recipe = changed(changed(game, "trainer.policies", "full"), "team.agents.b.model", model)
    with pytest.raises(RecipeError, match=r"or agents\.b\.model\.engine to 'transformers'"):
        TrainingRun(recipe, tmp_path / "run")


def test_team_without_a_trainable_agent_is_refused(game: Recipe, tmp_path: Path) -> None:
    frozen = changed(
        changed(game, "team.agents.a.trainable", False), "team.agents.b.trainable", False
    )
    with pytest.raises(RecipeError, match="no agent of the team is trainable"):
        TrainingRun(frozen, tmp_path / "run")


def test_missing_tracker_names_the_install_command(tiny_words: Path, tmp_path: Path) -> None:
    recipe = make_game(tiny_words, tmp_path, report_to=["wandb"])
    with pytest.raises(RecipeError, match=r"pip install 'collab-agents\[wandb\]'"):
        TrainingRun(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_unknown_lora_targets_are_refused(tiny_words: Path, tmp_path: Path) -> None:
    recipe = make_game(tiny_words, tmp_path, lora={"targets": ["no_proj"]})
    with pytest.raises(RecipeError, match=r"lora.targets \['no_proj'\]"):
        asyncio.run(TrainingRun(recipe, tmp_path / "run").run())


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """Limit files to `size` bytes; Python ignores the signal, so the write fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_loses_nothing(game: Recipe, here: Path) -> None:
    data = game.model_dump()
    data["trainer"] |= {"steps": 200, "checkpoint_every": 1000, "lora": {"rank": 1}}
    (here / "r.yaml").write_text(dump_recipe(Recipe.model_validate(data)))
    with full_disk(150_000):
        found = CliRunner().invoke(app, ["train", "r.yaml", "--out", "run"])
    assert found.exit_code == 2
    assert "free some space, then continue with --resume" in found.stderr
    assert len(list(read_episodes(here / "run"))) > 50
    assert json.loads((here / "run" / "run.json").read_text())["status"] == "failed"
    assert list((here / "run" / "checkpoints").glob("step-*"))


def test_a_full_disk_leaves_no_part_of_a_checkpoint(learner: Learner, tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoints", keep=1)
    message = r"cannot be written: .*File too large"
    with full_disk(2000), pytest.raises(RecordError, match=message):
        Checkpoints(tmp_path / "checkpoints", 1).save(0, learner, PerGroup(magrpo), {})
    assert not list(checkpoints.folder.iterdir())


def test_a_kill_while_a_checkpoint_is_replaced_leaves_one(
    learner: Learner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step is saved again if its evaluation was interrupted."""
    checkpoints = Checkpoints(tmp_path / "checkpoints", keep=1)
    path = checkpoints.save(3, learner, PerGroup(magrpo), {})
    remove = shutil.rmtree

    def kill(folder: Path, **options: Any) -> None:
        if path.name in folder.name:
            raise KeyboardInterrupt
        remove(folder, **options)

    monkeypatch.setattr(shutil, "rmtree", kill)
    with pytest.raises(KeyboardInterrupt):
        checkpoints.save(3, learner, PerGroup(magrpo), {})
    assert checkpoints.latest() == path


def test_a_users_copy_of_a_checkpoint_is_kept(learner: Learner, tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "checkpoints", keep=1)
    copy = shutil.copytree(
        checkpoints.save(1, learner, PerGroup(magrpo), {}), checkpoints.folder / "step-000001-mine"
    )
    assert checkpoints.save(2, learner, PerGroup(magrpo), {}) == checkpoints.latest()
    assert sorted(checkpoints.folder.iterdir()) == [copy, checkpoints.latest()]


@pytest.mark.parametrize("files", [{}, {"adapter_config.json": '{"peft_type": "LORA"}'}])
def test_start_adapter_must_exist(game: Recipe, tmp_path: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    recipe = changed(game, "team.agents.a.adapter", str(tmp_path))
    with pytest.raises(RecipeError, match=f"adapter {tmp_path} cannot be read"):
        asyncio.run(TrainingRun(recipe, tmp_path / "run").run())
