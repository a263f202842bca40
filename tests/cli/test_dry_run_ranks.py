"""`collab train --dry-run` with GPUs and ranks, on machines with and without GPUs."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from support.trainer_recipes import make_game
from typer.testing import CliRunner

from collab.cli.app import app
from collab.recipe.writing import dump_recipe
from collab.trainers.training.plan import cards, placement
from collab.trainers.training.plan.cards import Card


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
