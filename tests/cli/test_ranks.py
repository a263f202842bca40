"""Ranks in `collab train`: their number, the call of torchrun, and its exit."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from collab.distribution import python_command
from collab.errors import RecipeError, TrainingError
from collab.recipe import Recipe, load_recipe
from collab.runs.about import write_about
from collab.trainers.ranks.launching import (
    _explain_end,
    _take_own_gpu,
    is_leader,
    is_rank,
    torchrun_arguments,
)
from collab.trainers.training.plan import placement
from collab.trainers.training.plan.placement import RankPlan, choose_ranks


def recipe(device: str = "auto") -> Recipe:
    return load_recipe("coding", task="humaneval", settings=[f"model.device={device}"])


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(placement, "visible_gpus", lambda: 8)
    return 8


@pytest.mark.parametrize(
    ("device", "given", "wanted"),
    [
        ("auto", {}, RankPlan(8, on_gpus=True)),
        ("cuda", {"gpus": 4}, RankPlan(4, on_gpus=True)),
        ("auto", {"gpus": 1}, None),
        ("cuda:3", {}, None),
        ("cpu", {}, None),
        ("cpu", {"ranks": 2}, RankPlan(2, on_gpus=False)),
        ("cpu", {"ranks": 1}, RankPlan(1, on_gpus=False)),
    ],
)
def test_every_gpu_is_used_by_default(
    gpus: int, device: str, given: dict[str, int], wanted: RankPlan | None
) -> None:
    assert choose_ranks(recipe(device), **{"gpus": None, "ranks": None, **given}, resume=None) == (
        wanted
    )


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"gpus": 9}, "--gpus 9, but the recipe's models can use only 8; lower it"),
        ({"ranks": 2}, "models use one of 8 GPUs; use --gpus, or set model.device=cpu"),
        ({"ranks": 2, "gpus": 2}, "use only one of them"),
    ],
)
def test_impossible_rank_options_are_refused_with_the_remedy(
    gpus: int, given: dict[str, int], text: str
) -> None:
    with pytest.raises(RecipeError) as raised:
        choose_ranks(recipe(), **{"gpus": None, "ranks": None, **given}, resume=None)
    assert text in str(raised.value)


def test_resumed_run_keeps_its_number_of_ranks(tmp_path: Path) -> None:
    write_about(tmp_path, {"run": "r", "ranks": 3})
    assert choose_ranks(recipe("cpu"), None, None, tmp_path) == RankPlan(3, on_gpus=False)
    assert choose_ranks(recipe("cpu"), None, 1, tmp_path) == RankPlan(1, on_gpus=False)
    write_about(tmp_path, {"run": "r"})
    assert choose_ranks(recipe("cpu"), None, None, tmp_path) is None


def test_torchrun_starts_collab_on_this_machine() -> None:
    from torch.distributed.run import parse_args

    line = torchrun_arguments(8, ["train", "r.yaml", "--out", "run"])
    assert line == [
        "--standalone",
        "--nproc-per-node=8",
        "--no-python",
        *(*python_command(), "-u", "-m", "collab", "train", "r.yaml", "--out", "run"),
    ]
    parsed: Any = parse_args(line)
    assert (parsed.training_script, parsed.max_restarts) == (sys.executable, 0)
    assert parsed.training_script_args[-4:] == ["train", "r.yaml", "--out", "run"]


def test_rank_is_recognized_by_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR"):
        monkeypatch.delenv(name, raising=False)
    assert (is_rank(), is_leader()) == (False, True)
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost"}.items():
        monkeypatch.setenv(name, value)
    assert (is_rank(), is_leader()) == (True, False)


@pytest.mark.parametrize(
    ("visible", "expected"),
    [(None, "2"), ("4,5,6,7", "6"), ("5", "5"), ("GPU-a,GPU-b,GPU-c", "GPU-c")],
)
def test_rank_sees_only_its_own_gpu(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, expected: str
) -> None:
    monkeypatch.setenv("LOCAL_RANK", "2")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible or "")
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    _take_own_gpu()
    assert os.environ["CUDA_VISIBLE_DEVICES"] == expected


def test_rank_0_status_is_returned_and_other_failures_are_reported(tmp_path: Path) -> None:
    assert _explain_end({0: 2}, tmp_path) == 2
    assert _explain_end({0: 1, 1: 1}, tmp_path) == 1
    (tmp_path / "training.yaml").touch()
    with pytest.raises(TrainingError) as raised:
        _explain_end({1: -9}, tmp_path)
    going_on = f"; continue with: collab train --resume {tmp_path}"
    assert str(raised.value) == f"rank 1 ended: signal 9{going_on}"
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/rank-2.log").touch()
    with pytest.raises(TrainingError) as raised:
        _explain_end({2: 1}, tmp_path)
    text = f"; its log is {tmp_path / 'logs/rank-2.log'}"
    assert str(raised.value) == f"rank 2 ended: exit status 1{text}{going_on}"
