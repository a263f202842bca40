"""Records with invalid content are reported and shown as far as possible."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from support.command_line import Collab
from support.shares import one_in

BUG = "bug in collab"
ODD: list[Any] = [None, 7, -1, 10**4000, 1.5, "x", ["x"], {"x": [1]}, [[{}]], True]
GAIN: dict[str, Any] = {
    "before": 1.0, "after": 2.0, "gain": 1.0, "error": 0.5, "tasks": 3, "maximum": 3.0,
}  # fmt: skip
GAIN |= {"solved_before": None, "solved_after": 0.5}
COMMANDS = [
    ["show", "run"],
    ["show", "run", "0"],
    ["report", "run", "--out", "p.html"],
    ["replay", "run"],
]


PLACES = [
    "", "models", "tasks", "samples", "status", "summary", "run", "team", "versions", "command",
]  # fmt: skip
PLACES += ["turns", "seed", "steps", "agents", "isolation", "process", "ranks", "identity"]


@pytest.fixture
def run(project: Path, collab: Collab) -> Path:
    assert collab("run", "pair", "--task", "words/0-1", "-m", "echo", "--out", "run").status == 0
    return project / "run"


@pytest.mark.parametrize("place", one_in(8, PLACES))
def test_run_json_of_any_shape(run: Path, collab: Collab, place: str) -> None:
    about = json.loads((run / "run.json").read_text())
    for odd in ODD:
        (run / "run.json").write_text(json.dumps({**about, place: odd} if place else odd))
        for command in COMMANDS[:3]:
            result = collab(*command)
            assert BUG not in result.err, (odd, command, result.err)
            assert result.status in (0, 2)
            assert result.status == 0 or "run.json" in result.err


def test_a_summary_of_any_shape(run: Path, collab: Collab) -> None:
    about = json.loads((run / "run.json").read_text())
    summary = {**about["summary"], "steps": 1, "gains": {"sampled": GAIN}}
    used = summary["agents"]["a"]
    odds = [{**summary, key: odd} for key in summary for odd in ("x", [None])]
    odds += [{**summary, "agents": {"a": {**used, key: "x"}}} for key in used]
    odds += [{**summary, "agents": {"a": {}}}, {**summary, "gains": {"sampled": {}}}]
    odds += [{**summary, "gains": {"sampled": {**GAIN, key: "x"}}} for key in GAIN]
    for odd in [*odds, {}, {"steps": 1}, {"gains": {"sampled": GAIN}}]:
        (run / "run.json").write_text(json.dumps({**about, "summary": odd}))
        result = collab("show", "run")
        assert BUG not in result.err, (odd, result.err)
        assert result.status in (0, 2)


@pytest.mark.parametrize("file", ["run.json", "episodes.jsonl", "recipe.yaml", "metrics.jsonl"])
def test_malformed_record_files_cause_no_crash(run: Path, collab: Collab, file: str) -> None:
    before = (run / file).read_bytes() if (run / file).exists() else None
    odd = ["", "[", "[" * 100_000, "9" * 5000, "null\n", '{"a": "\\ud800"}\n', "\x00\xff"]
    for text in [*odd, "2024-99-99"]:
        (run / file).write_bytes(text.encode("latin-1"))
        for command in COMMANDS:
            result = collab(*command)
            assert BUG not in result.err, (command, result.err)
            assert result.status in (0, 1, 2)
    if before is not None:
        (run / file).write_bytes(before)
        assert collab(*COMMANDS[0]).status == 0


@pytest.mark.parametrize("kind", ["device", "pipe", "holes", "circle"])
@pytest.mark.parametrize("file", ["run.json", "episodes.jsonl", "recipe.yaml", "data/words.jsonl"])
def test_endless_files_are_not_read(run: Path, collab: Collab, file: str, kind: str) -> None:
    path = run / file
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "holes":
        path.touch()
        os.truncate(path, 1 << 40)
    elif kind == "circle":
        path.symlink_to(path.name)
    else:
        path.symlink_to("/dev/zero")
    for command in (*COMMANDS, ["run", "run"], ["show", "."]):
        result = collab(*command)
        assert BUG not in result.err, (command, result.err)
        assert result.status in (0, 2)


def test_episode_number_with_many_digits_is_unknown(run: Path, collab: Collab) -> None:
    assert "unknown episode" in collab("show", "run", "9" * 5000).err
