"""`collab show` without a run: the list of runs, and folders with several."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from support.command_line import Collab

from collab import Agent, Team
from collab.recipe import TeamSpec
from collab.runs.about import read_about, status_of, this_process, write_about

pytestmark = pytest.mark.usefixtures("project")


def played(collab: Collab, out: str, *more: str) -> Path:
    result = collab("run", "pair", "-t", "words/0-1", "-m", "echo", "--out", out, *more)
    assert result.status == 0, result.err
    return Path(out)


def began(folder: Path, when: str) -> None:
    write_about(folder, {**read_about(folder), "started": when})


def test_show_lists_all_runs_newest_first(collab: Collab) -> None:
    began(played(collab, "runs/old"), "2020-01-02T03:04:05+00:00")
    began(played(collab, "runs/new"), "2021-01-02T03:04:05+00:00")
    collab("eval", "pair", "-t", "words/0", "-m", "echo", "--out", "evals/e")
    result = collab("show")
    head, *rows = result.out.splitlines()
    assert head.split() == ["run", "began", "kind", "team", "task", "status", "return", "solved"]
    assert [row.split()[0] for row in rows] == ["evals/e/pair", "runs/new", "runs/old"]
    assert "run         pair  words (2)  done    1.00 of 1.00" in rows[1]
    assert "evaluation  pair  words/0" in rows[0]
    assert result.err == ""


def test_unnamed_team_is_labeled_by_its_agents(collab: Collab) -> None:
    agents = {name: {"prompt": "x"} for name in ("aux", "ma/in", "c", "d", "e")}
    assert TeamSpec.model_validate({"agents": agents}).name == "aux+ma-in+c+2"
    assert TeamSpec.model_validate({"name": "duo", "agents": agents}).name == "duo"
    agent = Agent(prompt="{{ task.prompt }}")
    team = Team(agents={"aux": agent, "main": agent}, model="echo", rewards=[lambda _: 1.0])
    assert repr(team) == "<Team aux+main: aux, main>"
    team.run([{"prompt": "x"}], out="runs/unnamed")
    old = played(collab, "runs/old")
    write_about(old, {**read_about(old), "team": ""})
    text = {row["folder"]: row["team"] for row in collab("show", "--json").events}
    assert text == {"runs/unnamed": "aux+main", "runs/old": "a+b"}


def test_empty_list_of_runs_is_not_an_error(collab: Collab) -> None:
    result = collab("show")
    assert (result.status, result.out) == (0, "")
    assert "no runs in runs/, evals/, studies/; begin with: collab run" in result.err


def test_a_broken_run_is_listed_with_the_reason(collab: Collab) -> None:
    (played(collab, "runs/a") / "run.json").write_text("[")
    assert "cannot be read: runs/a/run.json: not JSON" in collab("show").out


@pytest.mark.parametrize("odd", ["x", None, [1], {"a": 1}, 10**4000, True])
def test_malformed_numbers_cause_no_crash(collab: Collab, odd: Any) -> None:
    folder = played(collab, "runs/a")
    about = json.loads((folder / "run.json").read_text())
    about["summary"] |= dict.fromkeys(("mean_return", "largest_return", "solved", "solvable"), odd)
    about["started"] = "yesterday"
    (folder / "run.json").write_text(json.dumps(about))
    (folder / "training.yaml").write_text("")
    row = {"type": "evaluation.finished", "sampled": {"words/0": {"joint_return": odd}, "b": odd}}
    (folder / "metrics.jsonl").write_text(json.dumps(row) + "\n[]\n")
    result = collab("show")
    assert result.status == 0
    assert "runs/a" in result.out
    (folder / "training.yaml").unlink()
    assert collab("show").status == 0


def test_start_before_the_first_year_causes_no_crash(collab: Collab) -> None:
    folder = played(collab, "runs/a")
    write_about(folder, {**read_about(folder), "started": "0001-01-01T00:00:00+14:00"})
    assert "runs/a" in collab("show").out


def test_training_run_is_listed_with_its_last_evaluation(collab: Collab) -> None:
    folder = played(collab, "runs/a")
    (folder / "training.yaml").write_text("")
    task = {"joint_return": 1.5, "solved": 0.25, "maximum": 4.0}
    rows = [
        {"type": "evaluation.finished", "step": 0, "sampled": {"words/0": task}},
        {"type": "step.finished", "step": 1, "return/mean": 3.0},
    ]
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert "training  pair  words (2)  done    1.50 of 4.00     25%" in collab("show").out
    (folder / "metrics.jsonl").write_text(f"{json.dumps(rows[1])}\n")
    assert "3.00" in collab("show").out


def test_an_evaluation_shows_its_tables_and_names_its_teams(collab: Collab) -> None:
    collab("eval", "pair", "-t", "words/0", "-m", "echo", "--out", "teams")
    result = collab("show", "teams")
    assert result.status == 0
    assert "return at most" in result.out
    assert "collab show teams/TEAM; pair" in result.out
    assert collab("show", "teams", "--json").events[0]["suite"] == "words"


def test_running_run_with_a_dead_process_is_shown_as_killed(collab: Collab) -> None:
    folder = played(collab, "runs/a")
    write_about(folder, {**read_about(folder), "status": "running"})
    about = read_about(folder)
    assert about["process"]["pid"] == os.getpid()
    assert status_of(about) == "running"
    assert "running" in collab("show").out
    ended = {**this_process(), "began": "1"}  # another process has its number now
    (folder / "run.json").write_text(json.dumps({**about, "process": ended}))
    assert "killed" in collab("show").out
    assert "the run was killed: 2 of 2 episodes finished" in collab("show", "runs/a").err
    (folder / "training.yaml").write_text("")
    assert "continue with: collab train --resume runs/a\n" in collab("show", "runs/a").err


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"host": "elsewhere", "pid": 1}, "running"),
        ({"began": "1"}, "killed"),  # another process has the number now
        ({"pid": 2**22 + 1}, "killed"),  # above the highest process number
        ({"pid": -1}, "running"),
        ({"pid": "x"}, "running"),
        ({"pid": 10**40}, "running"),
    ],
)
def test_status_of_a_running_process(change: dict[str, Any], status: str) -> None:
    assert status_of({"status": "running", "process": {**this_process(), **change}}) == status


def test_name_of_a_process_may_be_cut_within_a_letter() -> None:
    name, process = Path("/proc/self/comm"), this_process()
    before = name.read_bytes()
    name.write_bytes("тренировка".encode())  # the system cuts it at 15 bytes
    try:
        assert this_process() == process
    finally:
        name.write_bytes(before)
