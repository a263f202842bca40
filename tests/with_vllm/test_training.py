"""Training with vLLM as the sampler, in process and over HTTP."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from math import sqrt
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from support.trainer_recipes import make_game
from support.vllm_servers.processes import CONTEXT, VLLMServerProcess

from collab.recipe import Recipe
from collab.recipe.schema import dump_recipe
from collab.runs.layout import ADAPTER_WEIGHTS
from collab.trainers import TrainingRun

NOISE = 1e-3
"""Nats per token between two float32 implementations of one model."""

HERE = {"engine": "vllm", "dtype": "float32", "kv_cache_gb": 0.5, "context": CONTEXT, "seeds": True}
LARGE_GROUPS = {"steps": 6, "group_size": 16}
EPISODES = 32
"""Episodes per step."""


def with_model(recipe: Recipe, **model: Any) -> Recipe:
    return Recipe.model_validate(recipe.model_dump() | {"model": model})


def train(
    recipe: Recipe, folder: Path, after_step: Callable[[int], None] | None = None
) -> list[dict[str, float]]:
    """Train and return the metrics of every step."""
    metrics: list[dict[str, float]] = []

    def watch(event: Any) -> None:
        if event.type == "step.finished":
            metrics.append(event.metrics)
            if after_step:
                after_step(event.step)

    asyncio.run(TrainingRun(recipe, folder, emit=watch).run())
    return metrics


def check_run(folder: Path, metrics: list[dict[str, float]]) -> None:
    assert max(row["mismatch"] for row in metrics) < NOISE
    assert {row["episodes/dropped"] for row in metrics} == {0.0}
    paths = sorted(folder.glob(f"adapters/*/{ADAPTER_WEIGHTS}"))
    assert [path.parent.name for path in paths] == ["a", "b"]
    for path in paths:
        assert any(t.any() for key, t in load_file(path).items() if "lora_B" in key)


def check_same_returns(mine: list[dict[str, float]], theirs: list[dict[str, float]]) -> None:
    """Check that the mean returns differ by less than four standard errors."""
    means = [sum(row["return/mean"] for row in rows) / len(rows) for rows in (mine, theirs)]
    variance = sum(row["return/std"] ** 2 for rows in (mine, theirs) for row in rows)
    error = sqrt(variance / len(mine) ** 2 / EPISODES)
    assert abs(means[0] - means[1]) < 4 * error, (means, error)


@pytest.fixture(scope="module")
def game(words: Path, tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    return make_game(words, tmp_path_factory.mktemp("game"), **LARGE_GROUPS)


@pytest.fixture(scope="module")
def game_by_transformers(
    game: Recipe, tmp_path_factory: pytest.TempPathFactory
) -> list[dict[str, float]]:
    return train(game, tmp_path_factory.mktemp("alone") / "run")


def test_game_trains_in_process_from_the_command_line(
    game: Recipe, game_by_transformers: list[dict[str, float]], tmp_path: Path
) -> None:
    recipe = with_model(game, name=game.model.name, **HERE)
    (tmp_path / "recipe.yaml").write_text(dump_recipe(recipe))
    command = [sys.executable, "-m", "collab", "train", "recipe.yaml", "--out", "run"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    metrics = [row for row in map(json.loads, lines) if row["type"] == "step.finished"]
    check_run(tmp_path / "run", metrics)
    check_same_returns(metrics, game_by_transformers)


def test_server_may_restart_while_the_game_trains(
    game: Recipe, game_by_transformers: list[dict[str, float]], tmp_path: Path
) -> None:
    with VLLMServerProcess(Path(game.model.name), tmp_path) as server:

        def restart(step: int) -> None:
            if step == 3:
                server.kill()
                server.start()

        model = {"engine": "vllm", "servers": [server.url], "dtype": "float32", "seeds": True}
        recipe = with_model(game, name=game.model.name, **model)
        metrics = train(recipe, tmp_path / "run", restart)
    assert len(metrics) == LARGE_GROUPS["steps"]
    check_run(tmp_path / "run", metrics)
    check_same_returns(metrics, game_by_transformers)
