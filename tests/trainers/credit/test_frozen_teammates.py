"""Frozen teammates keep their weights, and their actions still count."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.algorithms import weights_of
from support.trainer_recipes import make_game

from collab.recipe import Recipe
from collab.trainers import TrainingRun
from collab.trainers.credit.games import code_like, gradient, outcomes, sample, word_pair
from collab.trainers.credit.games.estimate import gradient_of
from collab.trainers.learner.policy import Policies, open_policies
from collab.trainers.ranks import orders

ALGORITHMS = ["magrpo", "marloo", "cross", "coma"]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_weights_match_those_of_a_fully_trained_team(name: str) -> None:
    group = sample(code_like(), 4, np.random.default_rng(1))
    full = weights_of(name, group)
    alone = weights_of(name, replace(group, agents=("main",)))
    assert set(alone) == {key for key in full if key[2] == "main"}
    assert all(alone[key] == full[key] for key in alone)


@pytest.mark.parametrize("name", ["marloo", "cross", "coma"])
def test_gradient_of_the_only_trained_agent_is_exact(name: str) -> None:
    game = word_pair("and", 0.3, 0.6)
    first, second = game.agents
    found = game.zeros()
    for chance, group in outcomes(game, 2):
        weights = weights_of(name, replace(group, agents=(first,)))
        for agent, part in gradient_of(game, group, weights).items():
            found[agent] += chance * part
    assert found[first] == pytest.approx(gradient(game)[first], abs=1e-12)
    assert not found[second].any()


def recipe_with_frozen_b(model: Path, folder: Path, adapter: Path, algorithm: str) -> Recipe:
    options: dict[str, Any] = {"algorithm": algorithm, "steps": 2, "checkpoint_every": 1}
    data = make_game(model, folder, group_size=4, tasks_per_step=1, **options).model_dump()
    data["team"]["agents"]["b"] |= {"trainable": False, "adapter": str(adapter)}
    return Recipe.model_validate(data)


@pytest.fixture(scope="module")
def adapter(tiny_words: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An adapter of b from an earlier training run."""
    folder = tmp_path_factory.mktemp("before")
    asyncio.run(TrainingRun(make_game(tiny_words, folder, steps=1), folder / "run").run())
    return folder / "run" / "adapters" / "b"


@pytest.mark.parametrize("algorithm", ["magrpo", "cross"])
def test_base_and_frozen_teammate_stay_bit_for_bit_equal(
    algorithm: str, adapter: Path, tiny_words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Policies] = []

    def opening(*arguments: Any, **options: Any) -> Policies:
        opened.append(open_policies(*arguments, **options))
        return opened[-1]

    snapshots: list[dict[str, torch.Tensor]] = []

    def watch(event: Any) -> None:
        if event.type == "step.finished":
            module = opened[0].by_name["a"].engine.module
            snapshots.append({name: p.detach().clone() for name, p in module.named_parameters()})

    monkeypatch.setattr(orders, "open_policies", opening)
    written = (adapter / "adapter_model.safetensors").read_bytes()
    recipe = recipe_with_frozen_b(tiny_words, tmp_path, adapter, algorithm)
    asyncio.run(TrainingRun(recipe, tmp_path / "run", emit=watch).run())
    first, *_, last = snapshots
    adapter_of_a = {
        name for name in first if name.endswith((".lora_A.a.weight", ".lora_B.a.weight"))
    }
    moved = {name for name in first if not torch.equal(first[name], last[name])}
    assert moved
    assert moved <= adapter_of_a
    assert any("lora" in name for name in set(first) - adapter_of_a), "b uses its adapter"
    assert (adapter / "adapter_model.safetensors").read_bytes() == written
    saved = tmp_path / "run" / "checkpoints" / "step-000002" / "policies"
    assert [path.name for path in saved.iterdir()] == ["a"]
