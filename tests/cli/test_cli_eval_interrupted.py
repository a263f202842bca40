"""A killed or interrupted evaluation is readable and can be resumed."""

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest
from support.command_line import Collab
from support.processes import start, wait_for_episode
from support.programs.held_model import HELD

from collab.evaluation.folder import read_results
from collab.records import read_episodes

pytestmark = pytest.mark.usefixtures("project", "shouting")


def episodes_of(team: str) -> list[str]:
    return [episode.id for episode in read_episodes(Path("out") / team)]


LINE = ("pair", "shouting", "-t", "words/0-3", "--out", "out", "--model", "held.py:held")


@pytest.fixture
def hold_file(project: Path) -> Path:
    (project / "held.py").write_text(HELD)
    (project / "hold").touch()
    return project / "hold"


def begin(*arguments: str) -> subprocess.Popen[str]:
    """Start an evaluation that finishes one episode and blocks in the others."""
    process = start("eval", *LINE, *arguments)
    wait_for_episode(process, Path("out/pair"))
    return process


def test_killed_evaluation_is_readable_and_resumed(collab: Collab, hold_file: Path) -> None:
    process = begin()
    process.kill()
    process.communicate(timeout=10)
    killed = read_results(Path("out"))
    assert (killed.status, [team.label for team in killed.teams]) == ("running", ["pair"])
    assert episodes_of("pair") == ["words/0#0"]
    report = collab("report", "out")
    assert report.out.startswith("out/report.html: 1 episode, ")
    assert "out: the evaluation is killed" in report.err
    page = Path("out/report.html").read_text()
    assert "<h2>Results</h2>" in page, "of the team at work, the evaluation has no numbers yet"
    hold_file.unlink()
    result = collab("eval", *LINE)
    assert result.status == 0, result.err
    assert "pair: 3 episodes to run, 1 recorded" in result.out
    assert episodes_of("pair") == [f"words/{n}#0" for n in range(4)]
    results = read_results(Path("out"))
    assert results.status == "done"
    assert results.teams[0].metrics["return"].mean == 1.0


def test_interrupted_evaluation_shows_its_partial_results(hold_file: Path) -> None:
    process = begin("--json")
    interrupted = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=10)
    assert time.monotonic() - interrupted < 3
    assert process.returncode == 130
    last = json.loads(out.splitlines()[-1])
    assert (last["type"], last["results"]["status"]) == ("eval.finished", "interrupted")
    (team,) = last["results"]["teams"]
    assert (team["label"], team["episodes"], team["planned"]) == ("pair", 1, 4)
    assert err.splitlines()[-1] == "interrupted; continue with the same command and --out out"
    results = read_results(Path("out"))
    assert results.status == "interrupted"
    assert results.notes[-1] == "pair: 1 of 4 episodes finished"
    about = json.loads(Path("out/pair/run.json").read_text())
    assert about["status"] == "interrupted"
