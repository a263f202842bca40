"""Runs that cannot be resumed are refused and stay unchanged."""

import asyncio
import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from support.files import unchanged
from support.trainer_recipes import make_game, one_step

from collab.errors import CollabError, RecordError
from collab.recipe import Recipe
from collab.trainers import TrainingRun


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("finished")


@pytest.fixture(scope="module")
def recipe(tiny_words: Path, folder: Path) -> Recipe:
    return make_game(tiny_words, folder)


@pytest.fixture(scope="module")
def finished(recipe: Recipe, folder: Path) -> Path:
    """A run of one step; tests must not change it."""
    asyncio.run(TrainingRun(one_step(recipe), folder / "run").run())
    return folder / "run"


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A copy of the finished run."""
    return shutil.copytree(finished, tmp_path / "run")


def state_of(run: Path) -> Path:
    """The state file of the run's checkpoint."""
    return run / "checkpoints" / "step-000001" / "state.json"


LENGTH = "def length(context): return min(len(context.joint.text), 100) / 100\n"


def with_length_reward(recipe: Recipe, path: Path) -> Recipe:
    data = recipe.model_dump()
    data["task"]["reward"] = {"parts": {"length": {"use": f"{path}:length"}}}
    return Recipe.model_validate(data)


def broken_recipe(recipe: Recipe, how: str, folder: Path) -> Recipe:
    """The recipe without something that is needed late."""
    data = recipe.model_dump()
    if how == "reward":
        (folder / "rewards.py").unlink()
    if how == "feedback":
        data["team"] |= {"turns": 2, "feedback": [{"source": f"{folder / 'no.py'}:tell"}]}
    if how == "phase":
        phase = {"steps": 1, "turns": 2, "feedback": [{"source": f"{folder / 'no.py'}:tell"}]}
        data["trainer"]["curriculum"] = [{"steps": 1, "turns": 1}, phase]
    if how == "parser":
        data["team"]["agents"]["a"]["parser"] = f"{folder / 'no.py'}:parse"
    if how == "shape":
        data["trainer"]["lora"]["rank"] = 3
    if how == "model":
        data["model"]["name"] = str(folder / "run")
    return Recipe.model_validate(data)


@pytest.fixture(scope="module")
def custom_reward_recipe(recipe: Recipe, folder: Path) -> Recipe:
    """The recipe with a custom reward, after a training run of one step."""
    (folder / "rewards.py").write_text(LENGTH)
    custom_reward_recipe = with_length_reward(one_step(recipe), folder / "rewards.py")
    asyncio.run(TrainingRun(custom_reward_recipe, folder / "own").run())
    return custom_reward_recipe


@pytest.mark.parametrize("how", ["reward", "feedback", "phase", "parser", "shape", "model"])
def test_run_that_cannot_be_resumed_is_left_unchanged(
    custom_reward_recipe: Recipe, folder: Path, tmp_path: Path, how: str
) -> None:
    run = shutil.copytree(folder / "own", tmp_path / "run")
    (folder / "rewards.py").write_text(LENGTH)
    spoilt = broken_recipe(custom_reward_recipe, how, folder)
    with unchanged(run), pytest.raises(CollabError):
        asyncio.run(TrainingRun(spoilt, run, resume=True).run())
    if how != "shape":
        with pytest.raises(CollabError):
            asyncio.run(TrainingRun(spoilt, tmp_path / "new").run())
        assert not (tmp_path / "new").exists()


def test_folder_without_a_training_run_is_refused(recipe: Recipe, tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="not a training run"):
        asyncio.run(TrainingRun(recipe, tmp_path, resume=True).run())


@pytest.mark.parametrize("content", [b"", b"no tensors" * 100])
@pytest.mark.parametrize("name", ["state.pt", "policies/a/adapter_model.safetensors"])
def test_damaged_state_is_refused(recipe: Recipe, run: Path, name: str, content: bytes) -> None:
    (run / "checkpoints" / "step-000001" / name).write_bytes(content)
    with pytest.raises(RecordError, match=r"step-000001 is damaged, or .*: \w+") as error:
        asyncio.run(TrainingRun(recipe, run, resume=True).run())
    assert "\n" not in str(error.value)


def test_mismatched_tensors_are_refused(recipe: Recipe, run: Path) -> None:
    others: list[object] = [5, [], {"learner": 5}]
    for other in others:
        torch.save(other, run / "checkpoints" / "step-000001" / "state.pt")
        with pytest.raises(RecordError, match="is damaged, or does not fit this recipe"):
            asyncio.run(TrainingRun(recipe, run, resume=True).run())


def refusal(recipe: Recipe, run: Path) -> str:
    """Resume a run that must be refused; return the message and check that no file changed."""
    with unchanged(run), pytest.raises(RecordError) as error:
        asyncio.run(TrainingRun(recipe, run, resume=True).run())
    return str(error.value)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ([], "object, got []"),
        ("x", "object, got 'x'"),
        ({"step": 1_000_000_000}, "step is 1000000000, and the folder is called step-000001"),
        ({"step": -1}, "step: must be at least 0, got -1"),
        ({"step": "1"}, "step: must be an integer, got '1'"),
        ({"step": True}, "step: must be an integer, got True"),
        ({"sizes": {"episodes.jsonl": -5}}, "sizes.episodes.jsonl: must be"),
        ({"sizes": None}, "sizes: must be an object, got None"),
        ({"best_step": "../x"}, "best_step: must be an integer, got '../x'"),
    ],
)
def test_invalid_state_is_refused(recipe: Recipe, run: Path, change: object, expected: str) -> None:
    state = state_of(run)
    data = json.loads(state.read_text()) | change if isinstance(change, dict) else change
    state.write_text(json.dumps(data))
    message = refusal(recipe, run)
    assert expected in message
    assert message.startswith(f"{state}: ")
    assert f"; remove {state.parent} to continue from an earlier one" in message


@pytest.mark.parametrize("content", [None, b"", b"{", b"\xff"])
def test_invalid_json_state_is_refused(recipe: Recipe, run: Path, content: bytes | None) -> None:
    state = state_of(run)
    state.unlink() if content is None else state.write_bytes(content)
    assert str(state) in refusal(recipe, run)


def test_checkpoint_beyond_the_last_step_is_refused(recipe: Recipe, tmp_path: Path) -> None:
    run = tmp_path / "run"
    asyncio.run(TrainingRun(recipe, run).run())
    message = "step-000004 is from step 4, but the run has 1 steps; set trainer.steps to 4 or more"
    assert message in refusal(one_step(recipe), run)


@pytest.mark.parametrize("name", ["episodes.jsonl", "metrics.jsonl"])
@pytest.mark.parametrize("size_left", [None, 10])
def test_files_shorter_than_the_checkpoint_records_are_refused(
    recipe: Recipe, run: Path, name: str, size_left: int | None
) -> None:
    file = run / name
    size = file.stat().st_size
    file.unlink() if size_left is None else os.truncate(file, size_left)
    message = (
        f"{file} has {size_left or 0} bytes, and {size:,} when step-000001 was written; restore the"
    )
    assert message in refusal(recipe, run)
