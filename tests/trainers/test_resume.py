"""A killed run resumes bit by bit as if it had not stopped."""

import asyncio
import json
import random
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from support.hub_server import COMMIT, HubServer, read_datasets_from
from support.shares import one_in
from support.trainer_recipes import changed, make_game, one_step
from support.warm_collab import Started, WarmCollab
from support.worlds.run_states import held_out_of, state_of

from collab.recipe import Recipe, SourceSpec, load_recipe
from collab.recipe.writing import dump_recipe
from collab.records import read_episodes
from collab.runs.layout import TRAINING
from collab.trainers import TrainingRun
from collab.trainers.training.events import TrainingEvent

OPTIONS: dict[str, Any] = {
    "steps": 6,
    "schedule": "cosine",
    "warmup_steps": 2,
    "checkpoint_every": 2,
    "evaluation": {"samples": 1, "every": 3},
}


@pytest.fixture
def recipe(tiny_words: Path, tmp_path: Path) -> Recipe:
    return make_game(tiny_words, tmp_path, **OPTIONS)


def check_readable(run: Path) -> None:
    """All files of a killed run are readable, except unfinished ones."""
    if (run / "training.yaml").exists():
        load_recipe(str(run / "training.yaml"))
    if (run / "episodes.jsonl").exists():
        list(read_episodes(run))
    for checkpoint in (run / "checkpoints").glob("step-*"):
        torch.load(checkpoint / "state.pt", weights_only=True)
        json.loads((checkpoint / "state.json").read_text())
    if (run / "recipe.yaml").exists():
        agents = load_recipe(str(run)).team.agents.values()
        assert all(
            Path(agent.adapter or "", "adapter_model.safetensors").is_file() for agent in agents
        )


@pytest.fixture(scope="module")
def uninterrupted_state(
    tiny_words: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """The final state of an uninterrupted run."""
    folder = tmp_path_factory.mktemp("whole")
    asyncio.run(TrainingRun(make_game(tiny_words, folder, **OPTIONS), folder / "run").run())
    return state_of(folder / "run")


@pytest.mark.parametrize(
    "stop_at",
    one_in(
        3, [("sampling", 2), ("sampling", 5), ("update", 4), ("evaluation", 6), ("evaluation", 3)]
    ),
)
def test_interrupted_run_resumes_bit_by_bit(
    recipe: Recipe, uninterrupted_state: dict[str, Any], tmp_path: Path, stop_at: tuple[str, int]
) -> None:
    killed = tmp_path / "parted"
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run_until(recipe, killed, stop_at))
    assert json.loads((killed / "run.json").read_text())["status"] == "interrupted"
    check_readable(killed)
    asyncio.run(TrainingRun(recipe, killed, resume=True).run())
    assert state_of(killed) == uninterrupted_state


async def run_until(recipe: Recipe, out: Path, stop_at: tuple[str, int]) -> None:
    task: asyncio.Task[Any]

    def watch(event: Any) -> None:
        if event.type == "training.progress" and (event.phase, event.step) == stop_at:
            task.cancel()

    task = asyncio.create_task(TrainingRun(recipe, out, emit=watch).run())
    await task


def test_missing_adapters_are_rewritten_from_the_checkpoint(recipe: Recipe, tmp_path: Path) -> None:
    """A run killed after its last checkpoint has no adapters yet."""
    run, recipe = tmp_path / "run", changed(recipe, "trainer.steps", 3)
    asyncio.run(TrainingRun(recipe, run).run())
    uninterrupted = state_of(run)
    for path in run.glob("adapters/*/*.safetensors"):
        path.unlink()
    asyncio.run(TrainingRun(recipe, run, resume=True).run())
    assert state_of(run) == uninterrupted


def test_run_without_held_out_episodes_is_resumed(recipe: Recipe, tmp_path: Path) -> None:
    """Older run folders have no `evaluation.jsonl`."""
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run_until(recipe, tmp_path / "run", ("sampling", 5)))
    (tmp_path / "run" / "evaluation.jsonl").unlink()
    for path in (tmp_path / "run" / "checkpoints").glob("*/state.json"):
        state = json.loads(path.read_text())
        del state["sizes"]["evaluation.jsonl"]
        path.write_text(json.dumps(state))
    asyncio.run(TrainingRun(recipe, tmp_path / "run", resume=True).run())
    assert {row[0][0] for row in held_out_of(tmp_path / "run")} == {6}


def test_status_is_running_during_the_run(recipe: Recipe, tmp_path: Path) -> None:
    statuses: list[tuple[str, Any, bool]] = []

    def see(event: TrainingEvent) -> None:
        if event.type not in ("run.started", "run.finished"):
            about = json.loads((tmp_path / "run" / "run.json").read_text())
            statuses.append((about["status"], about["steps"], "summary" in about))

    short = one_step(recipe)
    for steps in (1, 3):
        assert short.trainer is not None
        trainer = short.trainer.model_copy(update={"steps": steps})
        longer = short.model_copy(update={"trainer": trainer})
        asyncio.run(TrainingRun(longer, tmp_path / "run", resume=steps > 1, emit=see).run())
        assert set(statuses) == {("running", steps, False)}
        about = json.loads((tmp_path / "run" / "run.json").read_text())
        assert (about["status"], about["summary"]["steps"]) == ("done", steps)
        statuses.clear()


@pytest.fixture(scope="module")
def warm() -> Iterator[WarmCollab]:
    with WarmCollab() as warm:
        yield warm


def kill_at_random(process: Started, chance: random.Random) -> bool:
    """Kill the process at a random time; return whether it was still running."""
    for line in process.stdout:
        if (
            json.loads(line)["type"] in ("checkpoint.saved", "step.finished")
            and chance.random() < 0.5
        ):
            break
    time.sleep(chance.random() * 0.15)
    process.send_signal(signal.SIGKILL)
    return process.end()[0] == -signal.SIGKILL


def kill_and_resume(warm: WarmCollab, recipe: Recipe, folder: Path, kills: int) -> None:
    (folder / "r.yaml").write_text(dump_recipe(recipe))
    uninterrupted, killed = folder / "whole", folder / "parted"
    asyncio.run(TrainingRun(recipe, uninterrupted).run())
    chance, done, arguments = random.Random(kills), 0, ["r.yaml", "--out", "parted"]
    while done < kills:
        done += kill_at_random(warm.start(folder, "train", *arguments, "--json"), chance)
        check_readable(killed)
        arguments = ["--resume", "parted"]
        if json.loads((killed / "run.json").read_text())["status"] == "done":
            assert state_of(killed) == state_of(uninterrupted)
            shutil.rmtree(killed)
            arguments = ["r.yaml", "--out", "parted"]
    resumed = load_recipe(str(killed / TRAINING)) if killed.exists() else recipe
    asyncio.run(TrainingRun(resumed, killed, resume=killed.exists()).run())
    assert state_of(killed) == state_of(uninterrupted)


def test_killed_run_resumes_bit_by_bit(recipe: Recipe, tmp_path: Path) -> None:
    """A copy of the folder stands for a run killed at that moment."""
    uninterrupted, killed = tmp_path / "whole", tmp_path / "parted"

    def see(event: TrainingEvent) -> None:
        if event.type == "step.finished" and event.step == 5:
            shutil.copytree(uninterrupted, killed)

    asyncio.run(TrainingRun(recipe, uninterrupted, emit=see).run())
    check_readable(killed)
    assert json.loads((killed / "run.json").read_text())["status"] == "running"
    asyncio.run(TrainingRun(recipe, killed, resume=True).run())
    assert state_of(killed) == state_of(uninterrupted)


@pytest.mark.slow
def test_run_killed_repeatedly_resumes_bit_by_bit(
    warm: WarmCollab, tiny_words: Path, tmp_path: Path
) -> None:
    recipe = make_game(tiny_words, tmp_path, **{**OPTIONS, "steps": 20})
    kill_and_resume(warm, recipe, tmp_path, kills=8)


@pytest.mark.slow
def test_interruption_exits_with_130_and_can_be_resumed(
    warm: WarmCollab, recipe: Recipe, tmp_path: Path
) -> None:
    (tmp_path / "r.yaml").write_text(dump_recipe(recipe))
    many = ["--set", "trainer.steps=100000"]
    process = warm.start(tmp_path, "train", "r.yaml", "--out", "run", "--json", *many)
    for line in process.stdout:
        if json.loads(line)["type"] == "step.finished":
            break
    process.send_signal(signal.SIGINT)
    status, errors = process.end()
    assert status == 130
    assert "continue with: collab train --resume run" in errors
    assert json.loads((tmp_path / "run/run.json").read_text())["status"] == "interrupted"


def test_run_on_a_hub_suite_resumes_with_the_same_rows(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "rows"
    folder.mkdir()
    (tmp_path / "game.jsonl").rename(folder / "train.jsonl")
    assert recipe.task is not None
    task = recipe.task.model_copy(update={"source": SourceSpec(hub="me/game")})
    short = one_step(recipe).model_copy(update={"task": task})
    with HubServer("me/game", folder, "datasets") as hub:
        read_datasets_from(hub.url, tmp_path / "cache", monkeypatch)
        first = TrainingRun(short, tmp_path / "run")
        asyncio.run(first.run())
        rows = (folder / "train.jsonl").read_text()
        (folder / "train.jsonl").write_text(rows.replace("say a word", "go again"))
        hub.publish(folder, "f" * 40)
        again = TrainingRun(load_recipe(str(tmp_path / "run" / TRAINING)), tmp_path / "run")
    assert again.tasks == first.tasks
    for name in (TRAINING, "recipe.yaml"):
        assert f"revision: {COMMIT}" in (tmp_path / "run" / name).read_text()
