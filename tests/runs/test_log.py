"""A log contains only complete lines, whatever stops its writer."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from collab.errors import RecordError
from collab.records import Episode, Score
from collab.runs.log import BLOCK_BYTES, Log, iterate_lines, read_lines

Open = Callable[..., Log]


@pytest.fixture
def open_log(tmp_path: Path) -> Iterator[Open]:
    with ExitStack() as logs:
        yield lambda *remedy: logs.enter_context(closing(Log(tmp_path / "log", *remedy)))


def test_appended_lines_are_read_back(open_log: Open) -> None:
    log = open_log()
    for line in ("one", "", "drei \u00e4"):
        log.append(line)
    assert list(iterate_lines(log.path)) == [b"one\n", b"\n", "drei \u00e4\n".encode()]


def test_pipe_is_refused_as_a_log(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log")
    with pytest.raises(OSError, match="No such device or address"):
        Log(tmp_path / "log")
    with pytest.raises(RecordError, match="cannot be read: not a file"):
        next(iterate_lines(tmp_path / "log"))


def test_log_file_is_not_executable(open_log: Open) -> None:
    assert open_log().path.stat().st_mode & 0o111 == 0


@pytest.mark.parametrize("content", ["", "whole\n", "whole\n\n"])
def test_opening_keeps_complete_lines(tmp_path: Path, open_log: Open, content: str) -> None:
    (tmp_path / "log").write_text(content)
    assert open_log().size() == len(content)


@pytest.mark.parametrize("complete", ["", "whole\n", "one\n\n"])
def test_opening_removes_a_partial_line(tmp_path: Path, open_log: Open, complete: str) -> None:
    (tmp_path / "log").write_text(complete + '{"cut": ')
    log = open_log()
    log.append("next")
    assert (tmp_path / "log").read_text() == complete + "next\n"


def test_opening_a_huge_log_reads_only_its_end(tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    with (tmp_path / "log").open("r+b") as stream:
        stream.seek(100 * 10**9)
        stream.write(b"\nwhole\n" + b"torn" * BLOCK_BYTES)
    with closing(Log(tmp_path / "log")) as log:
        assert log.size() == 100 * 10**9 + len("\nwhole\n")


def test_line_that_does_not_fit_is_removed_and_the_next_is_complete(open_log: Open) -> None:
    log = open_log("buy a disk")
    log.append("first")
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        with pytest.raises(RecordError, match="only 4 of 21 bytes fit; buy a disk"):
            log.append("x" * 20)
        log.append("ok")
        with pytest.raises(RecordError, match="only 1 of 3 bytes fit"):
            log.append("no")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert log.path.read_text() == "first\nok\n"


def test_cut_removes_later_lines(open_log: Open) -> None:
    log = open_log()
    log.append("kept")
    size = log.size()
    log.append("forgotten")
    log.cut(size)
    log.append("next")
    assert log.path.read_text() == "kept\nnext\n"


def test_a_file_is_not_cut_beyond_its_end(open_log: Open) -> None:
    log = open_log()
    log.append("kept")
    with pytest.raises(RecordError, match="log has 5 bytes, fewer than 1,000"):
        log.cut(1000)
    assert log.path.read_text() == "kept\n"


def test_killed_writer_leaves_complete_lines(tmp_path: Path, open_log: Open) -> None:
    path = tmp_path / "log"
    code = (
        "import sys; from pathlib import Path; from collab.runs.log import Log\n"
        "log = Log(Path(sys.argv[1]))\nwhile True: log.append('x' * 100_000)\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", code, str(path)])
    while not (path.exists() and path.stat().st_size > 1_000_000):
        time.sleep(0.01)
    writer.kill()
    writer.wait()
    open_log().append("next")
    *lines, last = iterate_lines(path)
    assert last == b"next\n"
    assert set(lines) == {b"x" * 100_000 + b"\n"}


def test_unreadable_lines_are_reported_and_skipped(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"1\ntwo\n3\n4")
    lines = read_lines(path, int, "not a number")
    assert lines.items == [1, 3]
    assert lines.complaints == [*lines.broken, lines.torn]
    assert [c.removeprefix(str(path)).partition(": inv")[0] for c in lines.complaints] == [
        ", line 2: not a number",
        ": skipped the last line, which is truncated",
    ]


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="nothere does not exist; check the path"):
        list(iterate_lines(tmp_path / "nothere"))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_non_finite_reward_is_not_read(tmp_path: Path, number: str) -> None:
    (tmp_path / "log").write_text(f'{{"reward": {number}, "maximum": 1.0}}\n')
    lines = read_lines(tmp_path / "log", Score.model_validate_json, "not a score")
    assert lines.items == []
    [complaint] = lines.complaints
    assert complaint.endswith("reward: must be a finite number")


@pytest.mark.parametrize(("horizon", "index"), [(10**18, 0), (1, -(10**18))])
def test_an_episode_of_too_many_turns_is_not_read(tmp_path: Path, horizon: int, index: int) -> None:
    turn = {"index": index, "decisions": []}
    row = {"id": "e", "task": "t", "team": "a", "turns": [turn], "horizon": horizon}
    (tmp_path / "log").write_text(json.dumps(row) + "\n")
    lines = read_lines(tmp_path / "log", Episode.model_validate_json, "not an episode")
    [complaint] = lines.complaints
    assert "must be at" in complaint
