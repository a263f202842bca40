"""`benchmarks/gpu.py` works, here on a CPU and a tiny model."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest
import torch

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.slow
def test_the_benchmark_tells_all_that_it_measures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    gpu = importlib.import_module("gpu")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        assert gpu.main(["--device", "cpu", "--tiny", "--out", str(tmp_path / "gpu.json")]) == 0
    finally:
        torch.set_num_threads(threads)
    found = json.loads((tmp_path / "gpu.json").read_text())
    told = capsys.readouterr().out
    assert "whose peak in bfloat16 is not known" in told
    tiny = found["shapes"]["tiny"]
    assert tiny["learning"]["tokens"] == 2 * (32 + 8 * 15 + 1) - 2
    assert tiny["learning"]["tokens_per_second"] > 0
    assert set(tiny["learning"]["phases"]) == {
        "layout", "forward", "backward", "optimiser", "whole",
    }  # fmt: skip
    assert set(tiny["changes"]) == set(gpu.CHANGES)
    assert tiny["changes"]["logits of 96 tokens at once"]["head_chunk_tokens"] == 96
    assert tiny["changes"]["compiled layers"] == {"left_out": "needs a GPU"}
    assert "failed" not in json.dumps(found)
    assert tiny["sampling"]["transformers"]["rows"] == 4
    assert "sampling by transformers" in told


def test_without_a_gpu_it_says_how_to_try_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    gpu = importlib.import_module("gpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu.main([]) == 0
    assert "--device cpu --tiny" in capsys.readouterr().err
