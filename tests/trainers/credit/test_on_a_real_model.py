"""Every shipped trainer takes two steps with a real model and trains only adapters."""

import asyncio
from collections.abc import Iterator
from math import isfinite
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
import torch
from safetensors.torch import load_file
from support.shares import one_in
from support.trainer_recipes import steps_of

from collab.models import store, weights
from collab.models.weights import LoadedModel
from collab.recipe import Recipe, load_recipe
from collab.recipe.model import TransformersSpec
from collab.rewards.context import RewardContext
from collab.trainers import TrainingRun

MODEL = "smollm2-135m"
ON: dict[str, Any] = {"device": "cpu", "dtype": "float32"}
FEW = 1
"""Layers to keep of 30, a tenth of the cost; the weights and tokenizer are unchanged."""
TRAINERS = sorted(path.stem for path in (Path(__file__).parents[3] / "trainers").glob("*.yaml"))

SMALL = {
    "steps": 2,
    "group_size": 4,
    "tasks_per_step": 1,
    "learning_rate": 1e-3,
    "lora": {"rank": 2, "targets": ["q_proj", "v_proj"]},
    "checkpoint_every": 2,
}

IN_TURNS = {"turns": 2}
TEAMS: dict[str, dict[str, Any]] = {"at-grpo": IN_TURNS, "cross-tree": IN_TURNS}
"""Team settings of trainers that need more than one parallel turn."""

SETTINGS: dict[str, dict[str, Any]] = {
    "alternating": {"alternate_every": 1},
    "iac": {"group_size": 1, "tasks_per_step": 2},
    "maac": {"group_size": 1, "tasks_per_step": 2},
    "cross-tree": {"group_size": 2},
    "rae": {"group_size": 1, "tasks_per_step": 2, "policies": "shared_adapter"},
}
"""Settings that keep training to two steps and few episodes."""


def number_of(context: RewardContext) -> int:
    """Return a number that differs per text, so that returns in a group differ."""
    return crc32(context.joint.text.encode())


def paid(context: RewardContext) -> float:
    return number_of(context) % 997 / 996


def solved(context: RewardContext) -> float:
    return float(number_of(context) % 2)


@pytest.fixture(scope="module")
def base() -> Iterator[LoadedModel]:
    """The default model, opened once for all trainers; checks that its weights stay unchanged."""
    spec = TransformersSpec(name=MODEL, **ON)
    loaded = weights.load_model(store.resolve(MODEL), spec)
    loaded.module.model.layers = loaded.module.model.layers[:FEW]
    loaded.module.config.num_hidden_layers = len(loaded.module.model.layers)
    before = {name: weight.clone() for name, weight in loaded.module.state_dict().items()}
    yield loaded
    after = loaded.module.state_dict()
    assert list(after) == list(before)
    assert all(torch.equal(after[name], weight) for name, weight in before.items())


@pytest.fixture
def shared_model(base: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoadedModel]:
    """Let training use the open model, and unload the adapters afterwards."""
    shared_model = LoadedModel(**vars(base))
    monkeypatch.setattr(weights, "load_model", lambda folder, spec: shared_model)
    yield shared_model
    shared_model.module.unload()


def recipe_of(name: str) -> Recipe:
    trainer = {"extends": name, **SMALL, **SETTINGS.get(name, {})}
    common: dict[str, Any] = {"model": {"name": MODEL, **ON}, "trainer": trainer}
    if name == "rae":  # the self-play trainer
        return load_recipe("kuhn", task="kuhn", **common)
    agents = {
        "a": {"prompt": "A {{ task.thing }} is", "revise": "It was"},
        "b": {"prompt": "My {{ task.thing }}{{ others.a if others }} is", "revise": "Now it"},
    }
    for agent in agents.values():
        agent["style"] = "completion"
    sampling = {"max_new_tokens": 3}
    team = {"name": "pair", "agents": agents, "sampling": sampling, **TEAMS.get(name, {})}
    rewards: list[Any] = [paid, {"use": solved, "solves": True}]
    rows = [{"thing": thing} for thing in ("cat", "tree", "house", "song")]
    return load_recipe({"name": "pair", "team": team}, task=rows, rewards=rewards, **common)


@pytest.mark.parametrize("name", one_in(10, TRAINERS))
@pytest.mark.usefixtures("shared_model")
def test_trainer_trains_the_adapters_of_a_real_model(name: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    asyncio.run(TrainingRun(recipe_of(name), run).run())
    rows = steps_of(run)
    assert [row["step"] for row in rows] == [1, 2]
    norms = [value for row in rows for key, value in row.items() if "gradient_norm" in key]
    assert norms
    assert all(map(isfinite, norms))
    adapters = list(run.glob("adapters/*/*.safetensors"))
    assert adapters
    for path in adapters:
        raised = [tensor for key, tensor in load_file(path).items() if "lora_B" in key]
        assert raised
        assert all(tensor.any() for tensor in raised), path  # lora_B starts at 0
