"""A failure on one rank ends all ranks, names it, and the run resumes from its checkpoint."""

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from support.trainer_recipes import make_game
from support.worlds.run_states import state_of
from support.worlds.warm_ranks import WarmRanks

from collab.recipe.writing import dump_recipe

pytestmark = pytest.mark.ranks

OPTIONS: dict[str, Any] = {
    "steps": 3,
    "checkpoint_every": 1,
    "micro_batch_tokens": 1,
    "tasks_per_step": 2,
    "rank_timeout": 3.0,
}
TOLD = {
    "memory": r"out of memory on rank 1 while learning with policy 'a'; lower",
    "bug": r"error: rank 1: \S+warm_ranks.py:\d+: KeyError: 'oops'",
    "outside": r"error: rank 1: \S+warm_ranks.py:\d+: ValueError: between two agreements",
    "mismatch": r"log-probabilities differ by",
    "sleep": r"error: rank 1 did not respond within 3 s \(trainer.rank_timeout\)",
}
SIGNALS = {"kill": -9, "interrupt": -2}


@pytest.fixture(scope="module")
def uninterrupted_state(
    warm_ranks: WarmRanks, tiny_words: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """The final state of a run without failures."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "r.yaml").write_text(dump_recipe(make_game(tiny_words, folder, **OPTIONS)))
    assert warm_ranks.run(folder, 2, "train", "r.yaml", "--out", "run").statuses == [0, 0]
    return state_of(folder / "run")


@pytest.fixture
def folder(tiny_words: Path, tmp_path: Path) -> Path:
    (tmp_path / "r.yaml").write_text(dump_recipe(make_game(tiny_words, tmp_path, **OPTIONS)))
    return tmp_path


def resume_and_compare(
    warm: WarmRanks, folder: Path, world: int, uninterrupted_state: dict[str, Any]
) -> None:
    ended = warm.run(folder, world, "train", "--resume", "run")
    assert ended.statuses == [0] * world, ended.stderr
    assert state_of(folder / "run") == uninterrupted_state


@pytest.mark.parametrize(("fault", "world"), [*zip(TOLD, (1, 2, 3, 1, 2), strict=True)])
def test_failure_is_reported_with_its_rank(
    warm_ranks: WarmRanks, folder: Path, uninterrupted_state: dict[str, Any], fault: str, world: int
) -> None:
    """Resume the run with `world` ranks."""
    ended = warm_ranks.run(folder, 2, "train", "r.yaml", "--out", "run", fault=fault)
    assert ended.statuses[0] == 1, ended.stderr
    assert re.search(TOLD[fault], ended.stderr), ended.stderr
    assert ended.seconds < 60
    about = json.loads((folder / "run/run.json").read_text())
    assert about["status"] == "failed"
    resume_and_compare(warm_ranks, folder, world, uninterrupted_state)


@pytest.mark.parametrize(("fault", "world"), [("kill", 3), ("interrupt", 1)])
def test_lost_rank_ends_the_others(
    warm_ranks: WarmRanks, folder: Path, uninterrupted_state: dict[str, Any], fault: str, world: int
) -> None:
    ended = warm_ranks.run(folder, 2, "train", "r.yaml", "--out", "run", fault=fault)
    assert ended.statuses[0] in (1, 130), ended.stderr
    assert ended.statuses[1] == SIGNALS[fault]
    assert ended.seconds < 60
    about = json.loads((folder / "run/run.json").read_text())
    assert about["status"] in (
        "interrupted",
        "failed",
    )  # it lost the other rank, or was ended first
    resume_and_compare(warm_ranks, folder, world, uninterrupted_state)


def test_nan_loss_on_one_rank_skips_the_policy_on_all(warm_ranks: WarmRanks, folder: Path) -> None:
    ended = warm_ranks.run(folder, 2, "train", "r.yaml", "--out", "run", fault="nan")
    assert ended.statuses == [0, 0], ended.stderr
    output = (folder / "stdout-0").read_text()
    assert "rank 1: the loss of policy 'a' is nan, so collab skipped its update" in output


def test_unavailable_model_is_reported_once(warm_ranks: WarmRanks, folder: Path) -> None:
    arguments = ("--set", "model.device=cuda:7")
    ended = warm_ranks.run(folder, 2, "train", "r.yaml", "--out", "run", *arguments)
    assert ended.statuses[0] == 1
    assert ended.statuses[1] in (0, -signal.SIGTERM)  # it ended first, or was ended
    assert ended.stderr.count("device 'cuda:7' does not exist") == 1
    assert (folder / "stderr-1").read_text() == ""
    assert not (folder / "run").exists()
