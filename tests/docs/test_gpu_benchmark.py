"""`benchmarks/gpu_first.py` works, here on a CPU and a tiny model."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
TINY = ["--device", "cpu", "--tiny"]


@pytest.fixture
def gpu_first(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("gpu_first")


@pytest.mark.slow
def test_every_row_is_measured_or_says_why_not(
    gpu_first: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "rows.jsonl"
    assert gpu_first.main([*TINY, "--out", str(out)]) == 0
    rows = {row.pop("row"): row for row in map(json.loads, out.read_text().splitlines())}
    assert set(rows) == set(gpu_first.ROWS)
    assert "failed" not in json.dumps(rows)
    assert rows["learn/default"]["tokens"] == 2 * (32 + 8 * 15 + 1) - 2
    assert rows["learn/small"]["micro_batch_tokens"] == 2048
    assert rows["learn/varlen"]["left_out"] == "needs a GPU"
    assert set(rows["train"]["steps"]) == {"1", "2", "3"}
    assert "learn/default" in capsys.readouterr().out


def test_a_late_process_ends_with_those_that_it_started(gpu_first: Any, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    program = (
        "import pathlib, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"pathlib.Path({str(note)!r}).write_text(str(child.pid))\n"
        "time.sleep(60)"
    )
    assert "failed" in gpu_first.measured([sys.executable, "-c", program], 3)
    assert not psutil.pid_exists(int(note.read_text()))


def test_a_process_that_fails_says_its_last_words(gpu_first: Any) -> None:
    program = "import sys; sys.exit('no memory is left')"
    found = gpu_first.measured([sys.executable, "-c", program], 30)
    assert found == {"failed": "no memory is left"}


def test_without_a_gpu_it_says_how_to_try_it(
    gpu_first: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu_first.main([]) == 0
    assert "--device cpu --tiny" in capsys.readouterr().err
