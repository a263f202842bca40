"""Training with vLLM as the sampler, in process."""

import asyncio
import subprocess
import sys
from math import sqrt
from pathlib import Path

from safetensors.torch import load_file
from support.trainer_recipes import make_game, steps_of
from support.vllm_servers.processes import CONTEXT

from collab.recipe import Recipe
from collab.recipe.writing import dump_recipe
from collab.runs.layout import ADAPTER_WEIGHTS
from collab.trainers import TrainingRun

NOISE = 1e-3
"""Nats per token between two float32 implementations of one model."""

HERE = {"engine": "vllm", "dtype": "float32", "kv_cache_gb": 0.5, "context": CONTEXT, "seeds": True}
EPISODES = 32
"""Episodes per step."""


def test_game_trains_in_process_from_the_command_line(words: Path, tmp_path: Path) -> None:
    game = make_game(words, tmp_path, steps=6, group_size=16)
    asyncio.run(TrainingRun(game, tmp_path / "transformers").run())
    model = {"name": game.model.name, **HERE}
    recipe = Recipe.model_validate(game.model_dump() | {"model": model})
    (tmp_path / "recipe.yaml").write_text(dump_recipe(recipe))
    command = [sys.executable, "-m", "collab", "train", "recipe.yaml", "--out", "run"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    metrics = steps_of(tmp_path / "run")
    assert max(row["mismatch"] for row in metrics) < NOISE
    assert {row["episodes/dropped"] for row in metrics} == {0.0}
    paths = sorted(tmp_path.glob(f"run/adapters/*/{ADAPTER_WEIGHTS}"))
    assert [path.parent.name for path in paths] == ["a", "b"]
    for path in paths:
        assert any(t.any() for key, t in load_file(path).items() if "lora_B" in key)
    check_same_returns(metrics, steps_of(tmp_path / "transformers"))


def check_same_returns(mine: list[dict[str, float]], theirs: list[dict[str, float]]) -> None:
    """Check that the mean returns differ by less than four standard errors."""
    means = [sum(row["return/mean"] for row in rows) / len(rows) for rows in (mine, theirs)]
    variance = sum(row["return/std"] ** 2 for rows in (mine, theirs) for row in rows)
    error = sqrt(variance / len(mine) ** 2 / EPISODES)
    assert abs(means[0] - means[1]) < 4 * error, (means, error)
