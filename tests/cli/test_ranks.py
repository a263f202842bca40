"""Ranks in `collab train`: their number, their plan, the call of torchrun, and its exit."""

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from support.trainer_recipes import make_game
from typer.testing import CliRunner

from collab.cli.app import app
from collab.distribution import python_command
from collab.errors import RecipeError, TrainingError
from collab.recipe import Recipe, load_recipe
from collab.recipe.writing import dump_recipe
from collab.runs.about import write_about
from collab.trainers.ranks.launching import (
    _explain_end,
    _take_own_gpu,
    is_leader,
    is_rank,
    torchrun_arguments,
)
from collab.trainers.training.plan import cards, placement
from collab.trainers.training.plan.cards import Card
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


@pytest.fixture
def folder(tiny_words: Path, tmp_path: Path) -> Path:
    (tmp_path / "r.yaml").write_text(dump_recipe(make_game(tiny_words, tmp_path, steps=2)))
    return tmp_path


def dry(folder: Path, *arguments: str) -> Any:
    with contextlib.chdir(folder):
        found = CliRunner().invoke(app, ["train", "r.yaml", *arguments, "--dry-run"])
    assert "Traceback" not in found.stderr
    return found


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate two GPUs with given names and memory."""
    here = [Card("h100", 80_000_000_000), Card("l4", 24_000_000_000)]
    monkeypatch.setattr(placement, "visible_gpus", lambda: 2)
    monkeypatch.setattr(cards, "local_card", here.__getitem__)
    monkeypatch.setattr(placement, "local_card", here.__getitem__)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--gpus", "2"], "--gpus 2, but the recipe's models can use only 0; lower it"),
        (["--set", "model.device=cuda"], "model.device is 'cuda', but this machine has no GPU"),
        (["--set", "model.device=cuda:1"], "model.device is 'cuda:1'"),
    ],
)
def test_missing_gpus_are_refused_with_a_hint_to_card(
    folder: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    result = dry(folder, *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "--dry-run --card h100" in result.stderr
    assert dry(folder, *arguments, "--card", "h100").exit_code == 0


def test_plan_covers_several_gpus_of_a_card(folder: Path) -> None:
    result = dry(folder, "--gpus", "4", "--card", "rtx4090")
    assert "on 4 x rtx4090: fits" in result.stdout
    assert " GB for each of 4 ranks\n" in result.stdout


def test_processes_without_a_gpu_are_counted(folder: Path) -> None:
    assert "GB for each of 2 ranks" in dry(folder, "--ranks", "2").stdout
    assert "ranks" not in dry(folder).stdout.partition("memory:")[2].partition("\n")[0]


def test_plan_uses_all_local_gpus_and_the_smallest_memory(folder: Path, two_gpus: None) -> None:
    result = dry(folder, "--set", "model.device=auto")
    assert "on 2 x l4: fits" in result.stdout
    assert "of 24.0 GB per GPU" in result.stdout
    assert "on h100: fits" in dry(folder, "--set", "model.device=auto", "--gpus", "1").stdout
    result = dry(folder, "--set", "model.device=auto", "--gpus", "3")
    assert "--gpus 3, but the recipe's models can use only 2" in result.stderr


def test_local_card_reports_its_actual_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    class About:
        name, total_memory = "NVIDIA L40S", 47_000_000_000

    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda number: About)
    monkeypatch.setattr(torch.cuda, "device", contextlib.nullcontext)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: About.name != "Tesla T4")
    result = cards.local_card(0)
    assert (result.name, result.memory) == ("NVIDIA L40S", 47_000_000_000)
    About.name = "Tesla T4"
    assert cards.local_card(0) == Card("Tesla T4", 47_000_000_000, bfloat16=False)


def test_gpu_without_bfloat16_holds_float32(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Training uses float32 there if a model's dtype is `auto`."""
    monkeypatch.setattr(placement, "visible_gpus", lambda: 1)

    def weights(bfloat16: bool, dtype: str) -> int:
        here = Card("a GPU", 16_000_000_000, bfloat16=bfloat16)
        monkeypatch.setattr(cards, "local_card", lambda number: here)
        monkeypatch.setattr(placement, "local_card", lambda number: here)
        result = dry(
            folder, "--set", "model.device=auto", "--set", f"model.dtype={dtype}", "--json"
        )
        return int(json.loads(result.stdout)["memory"]["weights"])

    assert weights(False, "auto") == weights(False, "float32") == 2 * weights(True, "auto")


def test_gpu_only_setting_is_refused_without_a_gpu(folder: Path) -> None:
    found = dry(folder, "--set", "trainer.tree_attention=varlen")
    assert found.exit_code == 2
    assert "'varlen' needs a GPU" in found.stderr
    assert dry(folder, "--set", "trainer.tree_attention=varlen", "--card", "l4").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--card", "h100", "--ranks", "2", "--dry-run"], "use --gpus, or leave out --card"),
        (["--card", "h100"], "--card needs --dry-run"),
    ],
)
def test_options_that_exclude_each_other_are_refused(
    folder: Path, arguments: list[str], reason: str
) -> None:
    with contextlib.chdir(folder):
        done = CliRunner().invoke(app, ["train", "r.yaml", *arguments])
    assert (done.exit_code, reason in done.stderr) == (2, True)
