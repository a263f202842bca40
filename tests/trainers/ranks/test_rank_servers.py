"""A vLLM server on each rank: it starts, rank 0 uses it, and it ends with the run."""

import json
import sys
import time
from pathlib import Path

import psutil
import pytest
from support.trainer_recipes import make_game, steps_of
from support.vllm_servers import stand_in
from support.worlds.warm_ranks import WarmRanks

from collab.recipe.model import VLLMSpec
from collab.recipe.writing import dump_recipe
from collab.trainers.training.folder import TrainingFolder

pytestmark = pytest.mark.ranks


@pytest.fixture
def folder(tiny_words: Path, tmp_path: Path) -> Path:
    return write_server_recipe(tiny_words, tmp_path, sys.executable, stand_in.__file__)


def write_server_recipe(model: Path, folder: Path, *command: str) -> Path:
    recipe = make_game(model, folder, steps=2, checkpoint_every=1, micro_batch_tokens=1)
    vllm = VLLMSpec(
        name=str(model), dtype="float32", server_command=command, kv_cache_gb=0.01, seeds=True
    )
    (folder / "r.yaml").write_text(dump_recipe(recipe.model_copy(update={"model": vllm})))
    return folder


def running(folder: Path) -> list[psutil.Process]:
    """Running processes whose command line names this test's model."""
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
        assert time.monotonic() < until, "servers are still running after the run"
        time.sleep(0.1)


def test_rank_0_samples_from_the_servers_of_all_ranks(warm_ranks: WarmRanks, folder: Path) -> None:
    ended = warm_ranks.run(folder, 2, "train", "r.yaml", "--trust", "--out", "run")
    assert ended.statuses == [0, 0], ended.stderr
    for rank in (0, 1):
        log = (folder / f"run/logs/vllm-0-rank-{rank}.log").read_text()
        assert "answered by a@" in log or "answered by b@" in log
        assert "--enable-lora --max-loras 6 --max-lora-rank 16" in log
        assert "--host 127.0.0.1" in log
    rows = steps_of(folder / "run")
    assert all(row["mismatch"] < 1e-4 for row in rows)
    assert {row["episodes/dropped"] for row in rows} == {0.0}
    assert "127.0.0.1" not in (folder / "run/training.yaml").read_text(), "an address of this run"
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
    TrainingFolder.check_is_free(folder / "run")  # the same command can be repeated
