"""Training with samplers on servers that answer like vLLM."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from support.local_server import Handler
from support.trainer_recipes import make_game
from support.vllm_servers.twin import VLLMTwin
from torch import Tensor

from collab.errors import ModelTimeout, RecipeError, TrainingError
from collab.recipe import Recipe, load_recipe
from collab.recipe.model import VLLMSpec
from collab.recipe.recipe import DEFAULT_CONCURRENCY
from collab.runs.layout import ADAPTER_WEIGHTS
from collab.runtime import Session
from collab.tasks import open_suite
from collab.trainers import TrainingRun
from collab.trainers.training.check import check_recipe
from collab.trainers.training.plan.plan import make_plan

pytestmark = pytest.mark.slow

NOISE = 1e-4
"""Nats per token between two float32 models with the same weights."""


def on_servers(recipe: Recipe, *servers: VLLMTwin, **trainer: Any) -> Recipe:
    assert recipe.trainer is not None
    urls = tuple(server.url for server in servers)
    model = VLLMSpec(
        name=recipe.model.name, servers=urls, dtype="float32", ready_seconds=5.0, seeds=True
    )
    spec = recipe.trainer.model_copy(update=trainer)
    return recipe.model_copy(update={"model": model, "trainer": spec})


def train(
    recipe: Recipe,
    folder: Path,
    *,
    resume: bool = False,
    after_step: Callable[[int], None] | None = None,
) -> list[dict[str, float]]:
    """Train and return the metrics of every step."""
    metrics: list[dict[str, float]] = []

    def watch(event: Any) -> None:
        if event.type == "step.finished":
            metrics.append(event.metrics)
            if after_step:
                after_step(event.step)

    asyncio.run(TrainingRun(recipe, folder, resume=resume, emit=watch).run())
    return metrics


def adapters_of(folder: Path) -> dict[str, dict[str, Tensor]]:
    from safetensors.torch import load_file

    return {
        path.parent.name: load_file(path) for path in folder.glob(f"adapters/*/{ADAPTER_WEIGHTS}")
    }


def test_every_server_receives_the_trained_adapters(game: Recipe, tmp_path: Path) -> None:
    model = Path(game.model.name)
    with VLLMTwin(model) as one, VLLMTwin(model) as two:
        metrics = train(on_servers(game, one, two, steps=2), tmp_path / "run")
    assert len(metrics) == 2
    assert max(row["mismatch"] for row in metrics) < NOISE
    assert all("time/publishing" in row for row in metrics)
    assert one.bodies
    assert two.bodies
    versions = {body["model"] for body in one.bodies + two.bodies}
    assert len(versions) == 2 * 2, "one adapter version per agent and step"
    for server in (one, two):
        assert set(server.forgotten) >= versions
        assert not server.loaded, "the run has unloaded its adapters"
    for tensors in adapters_of(tmp_path / "run").values():
        assert any(t.any() for name, t in tensors.items() if "lora_B" in name)


def test_same_seeds_train_like_transformers(game: Recipe, tmp_path: Path) -> None:
    with VLLMTwin(Path(game.model.name)) as server:
        recipe = on_servers(game, server, steps=2)
        beside = train(recipe, tmp_path / "beside")
    alone = train(recipe.model_copy(update={"model": game.model}), tmp_path / "alone")
    assert [row["return/mean"] for row in beside] == [row["return/mean"] for row in alone]
    for name, tensors in adapters_of(tmp_path / "alone").items():
        found = adapters_of(tmp_path / "beside")[name]
        assert all(found[key].allclose(tensor, atol=1e-5) for key, tensor in tensors.items())


def test_one_server_two_and_a_dying_one_train_the_same(game: Recipe, tmp_path: Path) -> None:
    model, all_warnings = Path(game.model.name), []
    rows: dict[str, list[dict[str, float]]] = {"dying": []}
    with VLLMTwin(model) as one, ExitStack() as life:
        two = life.enter_context(VLLMTwin(model))
        small = {"steps": 3, "group_size": 2, "tasks_per_step": 1}
        rows["one"] = train(on_servers(game, one, **small), tmp_path / "one")
        rows["two"] = train(on_servers(game, one, two, **small), tmp_path / "two")

        def watch(event: Any) -> None:
            if event.type == "step.finished":
                all_warnings.extend(event.warnings)
                rows["dying"].append(event.metrics)
                if event.step == 1:
                    life.close()

        dying = on_servers(game, one, two, **small)
        asyncio.run(TrainingRun(dying, tmp_path / "dying", emit=watch).run())
    for name, found in rows.items():
        assert [row["return/mean"] for row in found] == [r["return/mean"] for r in rows["one"]]
        assert {row["episodes/dropped"] for row in found} == {0.0}
        assert (tmp_path / name / "episodes.jsonl").read_text().count("\n") == 3 * 2
    assert max(row["server/2/in_flight"] for row in rows["two"]) > 0
    (lost,) = (warning for warning in all_warnings if two.url in warning)
    assert "was lost" in lost


@pytest.mark.slow
def test_training_survives_a_server_restart(game: Recipe, tmp_path: Path) -> None:
    model = Path(game.model.name)
    with ExitStack() as life:
        first = life.enter_context(VLLMTwin(model))

        def restart(step: int) -> None:
            if step == 2:
                first.__exit__(None, None, None)
                life.pop_all()
                life.enter_context(VLLMTwin(model, first.port))

        metrics = train(on_servers(game, first), tmp_path / "run", after_step=restart)
    assert len(metrics) == 4
    assert max(row["mismatch"] for row in metrics) < NOISE
    assert {row["episodes/dropped"] for row in metrics} == {0.0}


@pytest.mark.slow
def test_dead_server_ends_the_training_and_it_can_be_resumed(game: Recipe, tmp_path: Path) -> None:
    model, folder = Path(game.model.name), tmp_path / "run"
    with ExitStack() as life:
        server = life.enter_context(VLLMTwin(model))
        recipe = on_servers(game, server, checkpoint_every=100)

        def kill(step: int) -> None:
            if step == 2:
                life.close()

        with pytest.raises(ModelTimeout, match=f"{server.url}: ConnectError"):
            train(recipe, folder, after_step=kill)
    with VLLMTwin(model, server.port):
        rest = train(recipe, folder, resume=True)
    assert len(rest) == 2, "the two earlier steps are kept"
    with VLLMTwin(model, server.port):
        uninterrupted = train(recipe, tmp_path / "whole")
    assert [row["return/mean"] for row in rest] == [row["return/mean"] for row in uninterrupted[2:]]
    assert max(row["mismatch"] for row in rest) < NOISE


def test_all_episodes_of_a_step_are_requested_at_once(game: Recipe, tmp_path: Path) -> None:
    with VLLMTwin(Path(game.model.name)) as server:
        wide = on_servers(
            game, server, steps=1, tasks_per_step=1, group_size=DEFAULT_CONCURRENCY + 8
        )
        [step] = train(wide, tmp_path / "wide")
        narrow = wide.model_copy(update={"concurrency": 4})
        [limited] = train(narrow, tmp_path / "narrow")
    assert step["server/1/in_flight"] == 2 * (DEFAULT_CONCURRENCY + 8)
    assert limited["server/1/in_flight"] == 2 * 4


def test_agents_may_share_an_adapter(game: Recipe, tmp_path: Path) -> None:
    with VLLMTwin(Path(game.model.name)) as server:
        recipe = on_servers(game, server, policies="shared_adapter", steps=2)
        metrics = train(recipe, tmp_path / "run")
    assert max(row["mismatch"] for row in metrics) < NOISE
    assert {body["model"].partition("@")[0] for body in server.bodies} == {"shared"}


def test_a_trained_team_runs_on_its_servers(game: Recipe, tmp_path: Path) -> None:
    async def play(folder: Path) -> set[str]:
        recipe = load_recipe(str(folder))
        assert isinstance(recipe.model, VLLMSpec)
        assert recipe.task is not None
        async with Session(recipe) as session:
            [episode] = await session.rollout(open_suite(recipe.task).select("8"))
        assert episode.failure is None
        return {d.action.adapter or "" for d in episode.turns[0].decisions}

    with VLLMTwin(Path(game.model.name)) as server:
        train(on_servers(game, server, steps=1), tmp_path / "run")
        server.bodies.clear()
        used = asyncio.run(play(tmp_path / "run"))
    assert used == {str(tmp_path / "run" / "adapters" / name) for name in "ab"}
    assert {body["model"].partition("@")[0] for body in server.bodies} == {"a", "b"}


def test_server_that_answers_with_the_base_model_is_detected(game: Recipe, tmp_path: Path) -> None:
    class Forgetful(VLLMTwin):
        def answer(self, handler: Handler, body: dict[str, Any]) -> None:
            super().answer(handler, body | {"model": "base"})

    with Forgetful(Path(game.model.name)) as server:
        recipe = on_servers(game, server, mismatch_tolerance=0.01)
        with pytest.raises(TrainingError, match="Sampler and trainer use different weights"):
            train(recipe, tmp_path / "run")


def test_the_plan_counts_the_trainers_own_weights(game: Recipe) -> None:
    model = VLLMSpec(name=game.model.name, dtype="float32", trainer_device="cpu")
    with_vllm, alone = make_plan(game.model_copy(update={"model": model})), make_plan(game)
    assert with_vllm.memory["weights"] == alone.memory["weights"]
    assert with_vllm.trainable == alone.trainable


@pytest.mark.parametrize(
    ("trainer", "words"),
    [
        ({"policies": "full"}, "set trainer.policies to 'adapters', or model.engine"),
        ({"lora": {"rank": 600}}, "up to rank 512, not 600"),
    ],
)
def test_settings_vllm_cannot_train_are_refused(
    tiny_words: Path, tmp_path: Path, trainer: dict[str, Any], words: str
) -> None:
    recipe = make_game(tiny_words, tmp_path, **trainer)
    recipe = recipe.model_copy(update={"model": VLLMSpec(name=str(tiny_words))})
    with pytest.raises(RecipeError) as error:
        check_recipe(recipe)
    assert words in str(error.value)
