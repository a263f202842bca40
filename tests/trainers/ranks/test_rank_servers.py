"""A vLLM server on each rank: started, used by rank 0, and gone with the run, however it ends."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import psutil
import pytest
from support.trainer_recipes import make_game, steps_of
from support.vllm_servers import stand_in
from support.worlds.warm_ranks import WarmRanks

from collab.recipe.model import VLLMModel
from collab.recipe.schema import dump_recipe

pytestmark = pytest.mark.ranks


@pytest.fixture
def folder(tiny_words: Path, tmp_path: Path) -> Path:
    return write_server_recipe(tiny_words, tmp_path, sys.executable, stand_in.__file__)


def write_server_recipe(model: Path, folder: Path, *command: str) -> Path:
    recipe = make_game(model, folder, steps=2, checkpoint_every=1, micro_batch_tokens=1)
    own = VLLMModel(
        name=str(model), dtype="float32", server_command=command, kv_cache_gb=0.01, seeds=True
    )
    (folder / "r.yaml").write_text(dump_recipe(recipe.model_copy(update={"model": own})))
    return folder


def running(folder: Path) -> list[psutil.Process]:
    """What was started with a model of this test's and has not ended."""
    name = json.loads((folder / "run/run.json").read_text())["models"]["a"]
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        line = process.info["cmdline"] or []
        if name in line and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found


def check_servers_ended(folder: Path) -> None:
    until = time.monotonic() + 60
    while running(folder):
        assert time.monotonic() < until, "servers outlive the run"
        time.sleep(0.1)


def test_rank_0_samples_from_the_servers_of_all_ranks(warm_ranks: WarmRanks, folder: Path) -> None:
    ended = warm_ranks.run(folder, 2, "train", "r.yaml", "--trust", "--out", "run")
    assert ended.statuses == [0, 0], ended.stderr
    for rank in (0, 1):
        said = (folder / f"run/logs/vllm-0-rank-{rank}.log").read_text()
        assert "answered by a@" in said or "answered by b@" in said
        assert "--enable-lora --max-loras 6 --max-lora-rank 16" in said
        assert "--host 127.0.0.1" in said
    rows = steps_of(folder / "run")
    assert all(row["mismatch"] < 1e-4 for row in rows)
    assert {row["episodes/dropped"] for row in rows} == {0.0}
    assert "127.0.0.1" not in (folder / "run/training.yaml").read_text(), "an address of now"
    check_servers_ended(folder)


def test_servers_end_with_killed_ranks(warm_ranks: WarmRanks, folder: Path) -> None:
    ended = warm_ranks.run(folder, 2, "train", "r.yaml", "--trust", "--out", "run", fault="kill")
    assert ended.statuses[1] == -9
    check_servers_ended(folder)


def test_server_that_does_not_start_is_reported_with_its_log(
    warm_ranks: WarmRanks, tiny_words: Path, tmp_path: Path
) -> None:
    folder = write_server_recipe(
        tiny_words, tmp_path, sys.executable, "-c", "raise SystemExit('no memory')"
    )
    ended = warm_ranks.run(folder, 2, "train", "r.yaml", "--trust", "--out", "run")
    assert ended.statuses[0] == 1
    assert "vLLM's server exited with status 1 during startup" in ended.stderr
    assert "run/logs/vllm-0-rank-" in ended.stderr
    assert "no memory" in (folder / "run/logs/vllm-0-rank-1.log").read_text()
