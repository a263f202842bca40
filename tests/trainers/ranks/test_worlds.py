"""Any number of ranks learns the same, bit by bit, however the work is divided."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from support.trainer_recipes import make_game
from support.worlds.run_states import state_of
from support.worlds.warm_ranks import WarmRanks

from collab.recipe import Recipe
from collab.recipe.writing import dump_recipe
from collab.trainers import TrainingRun

pytestmark = pytest.mark.ranks

CASES: dict[str, dict[str, Any]] = {
    "many micro-batches": {"micro_batch_tokens": 1, "tasks_per_step": 2},
    "fewer micro-batches than ranks": {"tasks_per_step": 1, "group_size": 2},
    "inner epochs": {"micro_batch_tokens": 1, "clip_ratio": 0.2, "inner_epochs": 2},
    "divergence": {"micro_batch_tokens": 1, "kl_coef": 0.1},
    "one at a time": {"update_order": "alternating", "micro_batch_tokens": 1},
    "whole models": {"policies": "full", "micro_batch_tokens": 1, "learning_rate": 1e-3},
    "a critic": {"algorithm": "iac", "micro_batch_tokens": 1},
}


def save_recipe(recipe: Recipe, folder: Path) -> None:
    (folder / "r.yaml").write_text(dump_recipe(recipe))


def run(warm: WarmRanks, folder: Path, world: int, out: str) -> dict[str, Any]:
    ended = warm.run(folder, world, "train", "r.yaml", "--out", out)
    assert ended.statuses == [0] * world, ended.stderr
    return state_of(folder / out)


@pytest.mark.parametrize("case", CASES)
def test_one_rank_and_three_learn_the_same(
    warm_ranks: WarmRanks, tiny_words: Path, tmp_path: Path, case: str
) -> None:
    save_recipe(make_game(tiny_words, tmp_path, steps=3, **CASES[case]), tmp_path)
    assert run(warm_ranks, tmp_path, 3, "three") == run(warm_ranks, tmp_path, 1, "one")


def test_very_different_lengths_are_distributed(
    warm_ranks: WarmRanks, tiny_words: Path, tmp_path: Path
) -> None:
    recipe = make_game(tiny_words, tmp_path, steps=2, tasks_per_step=4, micro_batch_tokens=160)
    rows = [{"task_id": str(n), "text": "say " * (100 if n % 4 == 0 else 5)} for n in range(12)]
    (tmp_path / "game.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    save_recipe(recipe, tmp_path)
    assert run(warm_ranks, tmp_path, 2, "two") == run(warm_ranks, tmp_path, 1, "one")


def test_ranks_learn_like_one_process_and_add_a_log(
    warm_ranks: WarmRanks, tiny_words: Path, tmp_path: Path
) -> None:
    recipe = make_game(tiny_words, tmp_path, steps=3, micro_batch_tokens=1)
    save_recipe(recipe, tmp_path)
    run(warm_ranks, tmp_path, 2, "two")
    asyncio.run(TrainingRun(recipe, tmp_path / "plain").run())
    for agent in "ab":
        path = f"adapters/{agent}/adapter_model.safetensors"
        one, two = load_file(tmp_path / "plain" / path), load_file(tmp_path / "two" / path)
        for name in one:
            # AdamW divides by a gradient's size, so it amplifies rounding errors of small
            # gradients. How much depends on the processor; 1e-4 is a hundredth of a step.
            torch.testing.assert_close(two[name], one[name], atol=1e-4, rtol=1e-5)
    about = json.loads((tmp_path / "two/run.json").read_text())
    assert (about["ranks"], about["status"]) == (2, "done")
    assert "ranks" not in json.loads((tmp_path / "plain/run.json").read_text())
    plain, dealt = (
        {str(p.relative_to(run)) for p in run.rglob("*") if p.is_file()}
        for run in (tmp_path / "plain", tmp_path / "two")
    )
    assert dealt - plain == {"logs/rank-1.log"}
    lines = (tmp_path / "two/logs/rank-1.log").read_text().splitlines()
    assert [line.split(":")[0] for line in lines] == ["step 1", "step 2", "step 3"]
    assert (tmp_path / "stdout-1").read_text() == ""
