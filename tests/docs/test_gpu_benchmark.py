"""`benchmarks/gpu_first.py` works on a CPU with a tiny model."""

import importlib
import json
import re
import sys
import warnings
from contextlib import redirect_stdout
from functools import cache
from io import StringIO
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


def rows_in(out: Path) -> dict[str, dict[str, Any]]:
    return {row.pop("row"): row for row in map(json.loads, out.read_text().splitlines())}


@pytest.fixture
def measure_in_process(gpu_first: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure rows in this process, which has imported torch; the versions use a new process."""

    @cache
    def versions(*command: str) -> dict[str, Any]:
        found: dict[str, Any] = real(command, 60)
        return found

    def measure(command: list[str], seconds: float) -> dict[str, Any]:
        row: dict[str, Any]
        if command[-1] == "versions":
            row = versions(*command)
        else:
            with redirect_stdout(StringIO()) as printed, warnings.catch_warnings():
                warnings.simplefilter("ignore")
                gpu_first.main(command[2:])
            row = json.loads(printed.getvalue().splitlines()[-1])
        return row

    real = gpu_first.measured
    monkeypatch.setattr(gpu_first, "measured", measure)


@pytest.mark.slow
@pytest.mark.usefixtures("measure_in_process")
def test_every_row_is_measured_or_gives_a_reason(
    gpu_first: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "rows.jsonl"
    assert gpu_first.main([*TINY, "--minutes", "30", "--out", str(out)]) == 0
    rows = rows_in(out)
    left_out = re.compile(r"/([01]\.5B|7B|3B/long)(/|$)")
    assert set(rows) == {name for name in gpu_first.ROWS if not left_out.search(name)}
    assert "failed" not in json.dumps(rows)
    assert rows["learn/3B"]["tokens"] == 2 * (32 + 8 * 15 + 1) - 2
    assert rows["learn/3B/small"]["micro_batch_tokens"] == 2048
    assert rows["learn/3B/varlen"]["left_out"] == "needs a GPU"
    assert rows["sample/3B/128x4"]["adapters"] == 4
    assert rows["step/3B/collab-2"]["step_seconds"] > 0
    assert {"step_seconds", "left_out"} & rows["step/3B/trl-1"].keys()
    assert "learn/3B" in capsys.readouterr().out


@pytest.fixture
def stand_in(gpu_first: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace measurements by a program that prints a number and hangs once."""
    measured: list[str] = []
    hangs = {"ceiling/copy"}

    def measure(command: list[str], seconds: float) -> dict[str, Any]:
        name = command[-1]
        measured.append(name)
        program, limit = """print('{"device": "CPU", "n": 1}')""", seconds
        if name in hangs:
            hangs.remove(name)
            program, limit = "import time; time.sleep(60)", 0.3
        row: dict[str, Any] = real([sys.executable, "-c", program], limit)
        return row

    real = gpu_first.measured
    monkeypatch.setattr(gpu_first, "measured", measure)
    return measured


CEILINGS = [f"ceiling/{name}" for name in ("matmul", "copy", "launch", "sort", "attention")]


def test_second_start_measures_only_missing_and_failed_rows(
    gpu_first: Any, tmp_path: Path, stand_in: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "rows.jsonl"
    start = [*TINY, "--out", str(out), "--only"]
    gpu_first.main([*start, *CEILINGS[:4]])
    rows = rows_in(out)
    assert rows["ceiling/copy"]["failed"] == "not done in 0.3 s"
    assert [name for name in rows if "failed" in rows[name]] == ["ceiling/copy"]
    with out.open("a") as stream:
        stream.write('{"row": "ceiling/attention", "on": "CPU", "seco\n')  # torn by a kill
    stand_in.clear()
    before = out.read_text()
    gpu_first.main([*start, "ceiling"])
    assert stand_in == ["versions", "ceiling/attention", "ceiling/copy"]
    assert out.read_text().startswith(before)
    stand_in.clear()
    gpu_first.main([*start, "ceiling"])
    assert stand_in == ["versions"]
    capsys.readouterr()
    assert gpu_first.main(["--table", str(out)]) == 0
    assert stand_in == ["versions"]
    table_lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in table_lines] == ["CPU", *CEILINGS]
    assert "failed" not in "".join(table_lines)


def test_each_machine_has_separate_rows(
    gpu_first: Any, tmp_path: Path, stand_in: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "rows.jsonl"
    line = {"row": "ceiling/matmul", "on": "H100", "seconds": 3.0, "n": 2}
    out.write_text(json.dumps(line) + "\n")
    gpu_first.main([*TINY, "--out", str(out), "--only", "ceiling/matmul"])
    assert stand_in == ["versions", "ceiling/matmul"]
    capsys.readouterr()
    gpu_first.main(["--table", str(out)])
    first, ours, second, _ = capsys.readouterr().out.splitlines()
    assert (first, second) == ("H100", "CPU")
    assert "n 2" in ours


def test_rows_that_lack_a_package_name_the_install_command(
    gpu_first: Any, tmp_path: Path, stand_in: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = importlib.import_module("gpu_parts.rows")
    monkeypatch.setattr(rows, "find_spec", lambda name: None)
    out = tmp_path / "rows.jsonl"
    gpu_first.main([*TINY, "--out", str(out), "--only", "step/3B/trl", "step/3B/comlrl"])
    assert stand_in == ["versions"]
    assert [row["left_out"] for row in rows_in(out).values()] == [
        "comlrl is not installed; pip install comlrl==1.4.3",
        "trl is not installed; pip install trl",
    ]


@pytest.mark.slow
def test_timed_out_process_is_killed_with_its_children(gpu_first: Any, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    program = (
        "import pathlib, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"pathlib.Path({str(note)!r}).write_text(str(child.pid))\n"
        "time.sleep(60)"
    )
    assert "failed" in gpu_first.measured([sys.executable, "-c", program], 3)
    assert not psutil.pid_exists(int(note.read_text()))


def test_vllm_result_is_parsed_before_its_shutdown_lines(
    gpu_first: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampling = importlib.import_module("gpu_parts.sampling")
    shutdown = "print('{\"tokens_per_second\": 1.0}'); print('INFO: shutting down')"
    monkeypatch.setattr(sampling, "VLLM", shutdown)
    monkeypatch.setattr(sampling, "save_description", lambda *_: None)
    assert sampling.by_vllm("tiny", 2, 3, 4) == {"rows": 2, "tokens_per_second": 1.0}


def test_failed_process_reports_its_last_output(gpu_first: Any) -> None:
    program = "import sys; sys.exit('no memory is left')"
    found = gpu_first.measured([sys.executable, "-c", program], 30)
    assert found == {"failed": "no memory is left"}


def test_benchmark_without_a_gpu_says_how_to_try_it(
    gpu_first: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu_first.main([]) == 0
    assert "--device cpu --tiny" in capsys.readouterr().err
