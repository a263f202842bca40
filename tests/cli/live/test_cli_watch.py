"""`collab watch`: follows a run, training or evaluation of another process by its files."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.command_line import Collab
from support.files import unchanged

from collab.cli.live.recorded import follow
from collab.records import Record
from collab.runs.about import read_about, this_process, write_about
from collab.runs.log import Tail

pytestmark = pytest.mark.usefixtures("project")


def played(collab: Collab, out: str = "out") -> Path:
    result = collab("run", "pair", "-t", "words/0-5", "-m", "echo", "--out", out)
    assert result.status == 0, result.err
    return Path(out)


def mark_running(folder: Path) -> None:
    write_about(folder, {**read_about(folder), "status": "running"})


def mark_killed(folder: Path) -> None:
    ended = {**this_process(), "began": "1"}  # another process has its number now
    about = {**read_about(folder), "status": "running", "process": ended}
    (folder / "run.json").write_text(json.dumps(about))


def event_types(events: Iterator[Record]) -> list[str]:
    return [str(event.type) for event in events if not event.type.startswith("agent.")]  # type: ignore[attr-defined]


def test_running_run_is_followed_to_its_end(collab: Collab) -> None:
    folder = played(collab)
    about = read_about(folder)
    file = folder / "episodes.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(lines[0] + lines[1][:40])
    mark_running(folder)
    written: list[bool] = []

    def work() -> None:
        """Write what the watched process writes between two polls."""
        if not written:
            file.write_bytes(b"".join(lines))
            written.append(True)
        else:
            write_about(folder, about)

    text = event_types(follow(folder, work))
    assert text == ["run.started", *["episode.finished"] * 6, "run.finished"]


def test_watch_shows_the_screen_of_the_run(collab: Collab) -> None:
    folder = played(collab)
    result = collab("watch", str(folder))
    assert result.status == 0
    assert "done        words/5#0" in result.out
    assert "6 episodes; mean return 1.00 of 1.00" in result.out
    assert [e["type"] for e in collab("watch", "out", "--json").events][-1] == "run.finished"


def test_run_with_a_dead_process_is_reported_killed(collab: Collab) -> None:
    folder = played(collab)
    mark_killed(folder)
    with unchanged(folder):
        result = collab("watch", str(folder))
    assert result.status == 1
    assert result.err.endswith("out was killed: its process no longer exists\n")


def test_watch_follows_an_evaluation(collab: Collab) -> None:
    assert collab("eval", "pair", "-t", "words", "-m", "echo", "--out", "e").status == 0
    result = collab("watch", "e")
    assert result.status == 0
    assert "return at most" in result.out
    results = json.loads(Path("e/eval.json").read_text())
    Path("e/eval.json").write_text(json.dumps({**results, "status": "running"}))

    def work() -> None:
        Path("e/eval.json").write_text(json.dumps(results))

    text = event_types(follow(Path("e"), work))
    assert text == ["team.started", *["episode.finished"] * 8, "eval.finished"]
    Path("e/eval.json").write_text(json.dumps({**results, "status": "running"}))
    mark_killed(Path("e/pair"))
    result = collab("watch", "e")
    assert (result.status, "e was killed" in result.err) == (1, True)
    words = ["eval", "pair", "-t", "words", "-m", "echo", "--seed", "1", "--out", "e"]
    assert collab(*words).status == 0
    result = collab("watch", "e")  # e/pair remains from the killed call, the team is in e/pair-2
    assert (result.status, result.err) == (0, "")


def test_watch_follows_a_training_run(collab: Collab) -> None:
    folder = played(collab).rename("my run")
    about = {**read_about(folder), "steps": 3}
    (folder / "training.yaml").write_text("")
    rows: list[dict[str, Any]] = [
        {"type": "evaluation.finished", "step": 0, "sampled": {}, "seconds": 1.0},
        {"type": "step.finished", "step": 1, "return/mean": 1.5, "tokens": 10.0},
        {"type": "step.finished", "step": 2, "return/mean": 2.5, "tokens": 10.0},
    ]
    write_about(folder, {**about, "status": "running"})
    file = folder / "metrics.jsonl"
    file.write_text("")

    def work() -> None:
        if not rows:
            write_about(folder, about | {"summary": {"steps": 2, "seconds": 1.0, "gains": {}}})
            return
        with file.open("a") as stream:
            stream.write(json.dumps(rows.pop(0)) + "\n")

    events = list(follow(folder, work))
    text = [kind for kind in event_types(iter(events)) if kind != "training.progress"]
    assert text == [
        "run.started", "evaluation.finished", "step.finished", "step.finished", "run.finished"
    ]  # fmt: skip
    result = collab("watch", str(folder))
    assert result.status == 0
    assert "step 2/3  return 2.50" in result.out
    assert f"team: collab run '{folder}'" in result.out
    mark_killed(folder)
    assert (
        f"exists; continue with: collab train --resume '{folder}'\n"
        in collab("watch", str(folder)).err
    )


def test_tail_reads_lines_rewritten_after_truncation(tmp_path: Path) -> None:
    file = tmp_path / "log"
    tail = Tail(file)
    assert tail.lines() == []
    file.write_bytes(b"one\ntwo\nthr")
    assert tail.lines() == [b"one", b"two"]
    file.write_bytes(b"one\n")
    assert tail.lines() == []
    file.write_bytes(b"one\nother\n" + b"x" * 100_000 + b"\n")
    assert tail.lines() == [b"other", b"x" * 100_000]


def test_record_of_a_server_is_refused(collab: Collab) -> None:
    folder = played(collab)
    write_about(folder, {**read_about(folder), "command": ["collab", "serve"]})
    result = collab("watch", str(folder))
    assert result.status == 2
    assert f"use collab show {folder}" in result.err
