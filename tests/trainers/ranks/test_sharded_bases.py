"""A base of which every rank holds a part is learned on as one that each holds whole."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.trainer_recipes import make_game
from support.vllm_servers.twin import VLLMTwin
from support.worlds.run_states import state_of
from support.worlds.warm_ranks import WarmRanks

from collab.recipe import Recipe
from collab.recipe.model import VLLMModel
from collab.recipe.schema import dump_recipe

pytestmark = pytest.mark.ranks


@pytest.fixture(scope="module")
def server(tiny_words: Path) -> Iterator[VLLMTwin]:
    with VLLMTwin(tiny_words) as twin:
        yield twin


def game(server: VLLMTwin, model: Path, folder: Path, **trainer: Any) -> Recipe:
    recipe = make_game(model, folder, **{"checkpoint_every": 1, "tasks_per_step": 2, **trainer})
    vllm = VLLMModel(
        name=str(model),
        servers=(server.url,),
        dtype="float32",
        trainer_device="cpu",
        ready_seconds=5.0,
        seeds=True,
    )
    return recipe.model_copy(update={"model": vllm})


def run(
    warm: WarmRanks, folder: Path, world: int, *arguments: str, fault: str = ""
) -> dict[str, Any]:
    ended = warm.run(folder, world, "train", *arguments, fault=fault)
    assert ended.statuses == [0] * world, ended.stderr
    return state_of(folder / "run")


CASES: dict[str, dict[str, Any]] = {
    "uneven micro-batches, divergence, computed twice": {
        "micro_batch_tokens": 1,
        "group_size": 3,
        "kl_coef": 0.1,
        "gradient_checkpointing": True,
    },
    "fewer micro-batches than ranks, one after the other": {"update_order": "sequential"},
}


@pytest.mark.parametrize("case", CASES)
def test_a_sharded_base_gives_the_bits_of_a_whole_one(
    warm_ranks: WarmRanks, server: VLLMTwin, tiny_words: Path, tmp_path: Path, case: str
) -> None:
    states = []
    for shard in (True, False):
        folder = tmp_path / str(shard)
        folder.mkdir()
        options = {
            "steps": 2,
            "tasks_per_step": 1,
            **CASES[case],
            "ranks": {"shard": shard, "limit": 20.0},
        }
        recipe = game(server, tiny_words, folder, **options)
        (folder / "r.yaml").write_text(dump_recipe(recipe))
        states.append(run(warm_ranks, folder, 2, "r.yaml", "--out", "run"))
    sharded, whole = states
    assert sharded == whole
    log = (tmp_path / "True/run/logs/rank-1.log").read_text()
    held = re.match(r"holds ([\d,]+) of ([\d,]+) parameters of ", log)
    assert held, log
    part, all_of_it = (int(number.replace(",", "")) for number in held.groups())
    assert part < 0.6 * all_of_it


def test_a_run_goes_on_with_another_number_of_ranks(
    warm_ranks: WarmRanks, server: VLLMTwin, tiny_words: Path, tmp_path: Path
) -> None:
    """From two that share the base out to one, which holds it whole."""
    options = {"ranks": {"shard": True, "limit": 20.0}, "micro_batch_tokens": 1}
    recipe = game(server, tiny_words, tmp_path, steps=1, **options)
    (tmp_path / "r.yaml").write_text(dump_recipe(recipe))
    run(warm_ranks, tmp_path, 2, "r.yaml", "--out", "run")
    went_on = run(warm_ranks, tmp_path, 1, "--resume", "run", "--set", "trainer.steps=2")
    whole = tmp_path / "whole"
    whole.mkdir()
    recipe = game(server, tiny_words, whole, steps=2, **options)
    (whole / "r.yaml").write_text(dump_recipe(recipe))
    straight = run(warm_ranks, whole, 3, "r.yaml", "--out", "run")
    assert went_on["team"] == straight["team"]
    assert went_on["adapters"] == straight["adapters"]
    for state in (went_on["state"], straight["state"]):
        del state["random"]  # drawn from where a server is asked again
    assert went_on["state"] == straight["state"]


TOLD = {
    "memory": r"rank 1 is out of memory; lower trainer.micro_batch_tokens",
    "sleep": r"error: rank 1 did not respond within 3 s \(trainer.ranks.limit\)",
}


@pytest.mark.parametrize("fault", [*TOLD, "kill"])
def test_what_fails_in_a_pass_ends_all_ranks_and_is_told(
    warm_ranks: WarmRanks, server: VLLMTwin, tiny_words: Path, tmp_path: Path, fault: str
) -> None:
    options = {"steps": 3, "micro_batch_tokens": 1, "ranks": {"shard": True, "limit": 3.0}}
    (tmp_path / "r.yaml").write_text(dump_recipe(game(server, tiny_words, tmp_path, **options)))
    ended = warm_ranks.run(tmp_path, 2, "train", "r.yaml", "--out", "run", fault=fault)
    assert ended.statuses[0] in (1, 130, -15), ended.stderr  # or it was ended as it ended
    assert ended.seconds < 60
    if fault in TOLD:
        assert re.search(TOLD[fault], ended.stderr), ended.stderr
    about = json.loads((tmp_path / "run/run.json").read_text())
    assert about["status"] in ("interrupted", "failed")
