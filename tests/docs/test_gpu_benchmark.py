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


def test_rows_outlive_one_that_hangs(
    gpu_first: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "rows.jsonl"
    seen: list[str] = []

    def measured(command: list[str], seconds: float) -> dict[str, Any]:
        seen.append(out.read_text())
        program = "import time; time.sleep(60)" if "ceiling/copy" in command else "print('{}')"
        hangs = "ceiling/copy" in command
        row: dict[str, Any] = real([sys.executable, "-c", program], 0.3 if hangs else seconds)
        return row

    real = gpu_first.measured
    monkeypatch.setattr(gpu_first, "measured", measured)
    gpu_first.main([*TINY, "--out", str(out), "--only", "ceiling"])
    rows = {row["row"]: row for row in map(json.loads, out.read_text().splitlines())}
    assert len(rows) == 5
    assert rows["ceiling/copy"]["failed"] == "not done in 0.3 s"
    assert [row for row in rows.values() if "failed" in row] == [rows["ceiling/copy"]]
    assert [text.count("\n") for text in seen] == [0, 1, 2, 3, 4], "each is written at once"


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


def test_numbers_are_found_before_the_last_words_of_vllm(
    gpu_first: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampling = importlib.import_module("gpu_parts.sampling")
    shutdown = "print('{\"tokens_per_second\": 1.0}'); print('INFO: shutting down')"
    monkeypatch.setattr(sampling, "VLLM", shutdown)
    monkeypatch.setattr(sampling, "save_description", lambda *_: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: True)
    assert sampling.by_vllm("tiny", 2, 3, 4) == {"rows": 2, "tokens_per_second": 1.0}


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
