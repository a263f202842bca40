"""`collab report`, on complete and broken runs."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support.command_line import Collab
from support.report_runs import data_of

pytestmark = pytest.mark.usefixtures("project")


def test_report_of_one_run_is_written_to_its_folder(collab: Collab, run: Path) -> None:
    result = collab("report", str(run))
    assert (result.status, result.err) == (0, "")
    assert result.out.startswith("out/report.html: 6 episodes, ")
    page = (run / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "<dd>pair</dd>" in page


def test_report_of_several_runs_is_written_to_the_current_folder(collab: Collab, run: Path) -> None:
    collab("run", "pair", "-t", "words/3", "-m", "echo", "--out", "second")
    assert collab("report", str(run), "second").status == 0
    assert "pair: 2 runs" in Path("report.html").read_text()


def test_out_and_episodes_options(collab: Collab, run: Path) -> None:
    result = collab("report", str(run), "--out", "new/r.html", "--episodes", "4")
    assert result.out.startswith("new/r.html: 4 episodes, ")
    assert "warning: 4 of 6 episodes are in this report" in result.err
    result = collab("report", str(run), "--episodes", "1")
    assert result.out.startswith("out/report.html: 1 episode, ")


def test_unwritable_report_file_is_refused(collab: Collab, run: Path) -> None:
    result = collab("report", str(run), "--out", "tasks")
    assert result.status == 2
    assert "tasks cannot be written: Is a directory; choose another file with --out" in result.err


@pytest.mark.parametrize("name", ["notes.md", "out/episodes.jsonl", "out/report.html"])
def test_only_a_report_is_replaced(collab: Collab, run: Path, name: str) -> None:
    file = Path(name)
    if not file.exists():
        file.write_text("<!doctype html>\nmine")
    before = file.read_bytes()
    result = collab("report", str(run), "--out", name)
    assert result.status == 2
    assert f"{name} exists and is not a report; choose another file with --out" in result.err
    assert file.read_bytes() == before
    for _ in range(2):
        assert collab("report", str(run), "--out", "new.html").status == 0


@pytest.mark.parametrize("target", ["/dev/null", "/proc/self/exe"])
def test_a_link_to_a_stream_is_kept(collab: Collab, run: Path, target: str) -> None:
    link = Path("stdin")
    link.symlink_to(target)
    result = collab("report", str(run), "--out", "stdin")
    assert (result.status, link.readlink()) == (2, Path(target))
    assert "stdin exists and is not a report; choose another file with --out" in result.err


@pytest.fixture
def evaluated(collab: Collab, project: Path) -> Path:
    """An evaluation of two teams on four problems with two samples each."""
    team = (project / "agents" / "pair.yaml").read_text()
    (project / "agents" / "other.yaml").write_text(team.replace("Say {{", "Tell {{"))
    arguments = ("-t", "words/0-3", "-n", "2", "-m", "echo", "--out", "teams")
    assert collab("eval", "pair", "other", *arguments).status == 0
    return Path("teams")


def test_an_evaluation_is_shown_with_its_teams(collab: Collab, evaluated: Path) -> None:
    result = collab("report", str(evaluated))
    assert (result.status, result.err) == (0, "")
    page = (evaluated / "report.html").read_text()
    assert "<h2>words: 4 problems, 2 samples, echo, seed 0</h2>" in page
    assert "<h2>difference to pair, on the same problems</h2>" in page
    data = data_of(page)
    assert [run["name"] for run in data["runs"]] == ["pair", "other"]
    assert len(data["episodes"]) == 16


def test_evaluation_report_shows_only_its_own_episodes(collab: Collab, evaluated: Path) -> None:
    file = evaluated / "eval.json"
    results = json.loads(file.read_text())
    file.write_text(json.dumps({**results, "samples": 1, "tasks": ["words/0", "words/1"]}))
    collab("report", str(evaluated))
    episodes = data_of((evaluated / "report.html").read_text())["episodes"]
    assert sorted({episode["id"] for episode in episodes}) == ["words/0#0", "words/1#0"]


def test_report_shows_the_last_version_of_a_changed_team(collab: Collab, evaluated: Path) -> None:
    file = evaluated / "eval.json"
    file.write_text(file.read_text().replace('"status": "done"', '"status": "interrupted"'))
    arguments = ("-t", "words/0", "-m", "echo", "--set", "agents.a.prompt=Hush.", "--out", "teams")
    assert collab("eval", "pair", *arguments).status == 0
    collab("report", str(evaluated))
    data = data_of((evaluated / "report.html").read_text())
    assert [run["name"] for run in data["runs"]] == ["pair"]
    assert [episode["reward"] for episode in data["episodes"]] == [0.5]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace('"status": "done"', '"status": "running"'), "is killed"),
        (lambda text: text[:100], "eval.json: not an evaluation"),
    ],
)
def test_unfinished_evaluation_is_reported(
    collab: Collab, evaluated: Path, change: Callable[[str], str], message: str
) -> None:
    file = evaluated / "eval.json"
    file.write_text(change(file.read_text()))
    result = collab("report", str(evaluated))
    assert result.status == 0
    assert message in result.err
    assert len(data_of((evaluated / "report.html").read_text())["episodes"]) == 16
