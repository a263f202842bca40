"""Real processes: streams, exit statuses, interrupts, and leftovers."""

import json
import os
import shlex
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from support.command_line import Collab
from support.processes import COLLAB, environment, start, wait_for_episode

from collab.records import read_episodes

pytestmark = [pytest.mark.usefixtures("project"), pytest.mark.slow]


def finish(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    popen_options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.run(
        [*COLLAB, *arguments],
        text=True,
        env=environment(),
        timeout=60,
        check=False,
        **popen_options,
    )


def begin(*arguments: str) -> subprocess.Popen[str]:
    """Start a run that finishes one episode and blocks in the others."""
    line = ("run", "pair", "--task", "words/0-3", "--out", "out", *arguments)
    process = start(*line, start_new_session=True)
    wait_for_episode(process, Path("out"))
    return process


def left_behind(session: int) -> list[str]:
    """Return the processes of a session that are still running."""
    outcome = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            outcome.append(path.parent.name)
    return outcome


@pytest.mark.parametrize(
    ("model", "number"),
    [("patient", signal.SIGTERM), ("patient", signal.SIGHUP), ("stubborn", signal.SIGINT)],
)
def test_an_interrupted_run_ends_within_two_seconds(model: str, number: signal.Signals) -> None:
    process = begin("--model", f"models.py:{model}", "--json")
    interrupted = time.monotonic()
    process.send_signal(number)
    out, err = process.communicate(timeout=10)
    assert time.monotonic() - interrupted < 2
    assert process.returncode == 130
    last = json.loads(out.splitlines()[-1])
    assert (last["type"], last["status"]) == ("run.finished", "interrupted")
    assert err.splitlines()[-1] == "interrupted: 1 finished episode in out"
    assert [episode.id for episode in read_episodes(Path("out"))] == ["words/0#0"]
    assert json.loads(Path("out/run.json").read_text())["status"] == "interrupted"
    assert left_behind(process.pid) == []


@pytest.mark.parametrize("command", ["run", "eval"])
def test_closing_the_terminal_interrupts_the_command(command: str) -> None:
    master, slave = os.openpty()
    line = ["pair", "--task", "words/0-3", "--out", "out", "--model", "models.py:patient"]
    process = subprocess.Popen(
        ["sh", "-c", 'exec "$@" <"$0" >"$0" 2>&1', os.ttyname(slave), *COLLAB, command, *line],
        env=environment(TERM="xterm"),
        start_new_session=True,  # so the terminal becomes its controlling terminal
    )
    folder = Path("out/pair") if command == "eval" else Path("out")
    wait_for_episode(process, folder)
    os.close(slave)
    os.close(master)
    process.wait(10)
    assert json.loads((folder / "run.json").read_text())["status"] == "interrupted"
    assert left_behind(process.pid) == []


def test_nohup_continues_when_the_terminal_is_closed() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # like nohup
    try:
        process = begin("--model", "models.py:patient")
    finally:
        signal.signal(signal.SIGHUP, before)
    process.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=10)
    assert process.returncode == 130


def test_best_of_lines_are_written_to_stdout() -> None:
    ended = finish("run", "pair", "-t", "words/0-1", "--model", "echo", "--best-of", "2", "--json")
    assert ended.returncode == 0, ended.stderr
    types = [json.loads(line)["type"] for line in ended.stdout.splitlines()]
    assert types[-3:] == ["run.finished", "best_of", "best_of"]
    assert "best_of" not in ended.stderr


def test_a_killed_run_is_readable_to_its_last_finished_episode(collab: Collab) -> None:
    process = begin("--model", "models.py:patient")
    process.kill()
    process.communicate(timeout=10)
    assert [episode.id for episode in read_episodes(Path("out"))] == ["words/0#0"]
    shown = collab("show", "out")
    assert shown.status == 0
    assert "words/0#0" in shown.out
    assert "1 of 4 episodes finished" in shown.err


def test_foreign_output_to_stdout_goes_to_stderr_in_json_mode(project: Path) -> None:
    (project / "parts.py").write_text(
        "import os, subprocess\n"
        "def right(context):\n"
        "    print('a print')\n"
        "    subprocess.run(['echo', 'a child'])\n"
        "    os.write(1, b'a library\\n')\n"
        "    return 1.0, 'fine'\n"
    )
    result = finish("run", "pair", "-t", "words/0", "--model", "echo", "--json")
    assert result.returncode == 0
    types = [json.loads(line)["type"] for line in result.stdout.splitlines()]
    assert (types[0], types[-1]) == ("run.started", "run.finished")
    assert {"a print", "a child", "a library"} <= set(result.stderr.splitlines())


def test_output_and_record_hold_no_secret(collab: Collab, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "sk-ant-never-to-be-seen"
    monkeypatch.setenv("ANTHROPIC_API_KEY", secret)
    monkeypatch.setenv("HF_TOKEN", secret)
    result = collab("doctor")
    assert secret not in result.out + result.err
    assert "set" in result.out
    assert collab("run", "pair", "-t", "words/0", "-m", "echo", "--out", "out").status == 0
    for path in Path("out").rglob("*.*"):
        assert secret not in path.read_text()


COMMANDS = [
    "--help", "run pair --task words/0-3 --model echo --out out",
    "run pair --task words/0-3 --model echo --json --out out",
    "eval pair --task words/0-1 --model echo --out evals", "show done",
    "report done --out page.html", "tasks words", "doctor --json",
]  # fmt: skip


@pytest.mark.parametrize("line", COMMANDS)
def test_closed_pipe_ends_a_command_quietly(collab: Collab, line: str) -> None:
    if "done" in line:
        played = collab("run", "pair", "--task", "words/0-3", "-m", "echo", "--out", "done")
        assert played.status == 0
    Path("a.txt").write_text("w0")
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as output:
        done = finish(*line.split(), stdout=output)
    assert (done.returncode, done.stderr) in ((141, ""), (0, ""))
    if "--out out" in line:
        assert json.loads(Path("out/run.json").read_text())["status"] in ("interrupted", "done")
        read_episodes(Path("out"))
        assert collab("show", "out").out


def test_foreign_record_cannot_control_the_terminal(collab: Collab) -> None:
    evil = "\x1b]0;owned\x07\x1b[8m\u202e[blink]x\x9b2J"
    assert collab("run", "pair", "--task", "words/0", "-m", "echo", "--out", "out").status == 0
    about = json.loads(Path("out/run.json").read_text())
    about |= {"run": evil, "team": evil, "models": {"a": evil}, "status": evil}
    Path("out/run.json").write_text(json.dumps(about))
    episodes = Path("out/episodes.jsonl")
    episodes.write_text(episodes.read_text().replace("w0", json.dumps(evil)[1:-1]))
    for command in (["show", "out"], ["show", "out", "0"], ["run", f"t{evil}"], ["show", evil]):
        terminal, inner = os.openpty()
        with os.fdopen(inner) as ends:
            finish(*command, stdout=ends, stderr=ends, stdin=ends)
            shown = os.read(terminal, 1 << 20).decode()
        os.close(terminal)
        assert "[blink]" in shown
        for steering in ("\x1b]0", "\x07", "\x1b[8m", "\x1b[5m", "\u202e", "\x9b"):
            assert steering not in shown, (command, shown)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("line", [COMMANDS[1], "schema"])
def test_closed_stream_is_treated_as_empty(closed: str, line: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f"{shlex.join(COLLAB)} {line} {closed}"],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
        check=False,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert bool(done.stdout) == (" >&-" not in f" {closed}")
    if "--out" in line:
        assert len([*read_episodes(Path("out"))]) == 4


@pytest.mark.parametrize("line", ["run pair --model echo", "tasks", "teams"])
def test_deleted_current_folder_is_a_one_line_error(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deleted = tmp_path / "deleted"
    deleted.mkdir()
    monkeypatch.chdir(deleted)
    deleted.rmdir()
    done = finish(*line.split())
    message = "error: the current folder was deleted; change to another one\n"
    assert (done.returncode, done.stderr) == (2, message)


@pytest.mark.parametrize("line", [COMMANDS[1], "schema", "--help"])
def test_full_disk_on_stdout_is_a_one_line_error(project: Path, line: str) -> None:
    with Path("/dev/full").open("w") as output:
        done = finish(*line.split(), stdout=output)
    assert done.stderr == "error: stdout cannot be written: No space left on device\n"
    assert done.returncode == 1
