"""`collab show` and `collab replay`: runs, lists of runs, complete and broken ones."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.command_line import Collab

from collab import Agent, Team
from collab.recipe import TeamSpec
from collab.records import read_episodes
from collab.runs.about import read_about, status_of, this_process, write_about

pytestmark = pytest.mark.usefixtures("project")


FAILURE = {"boundary": "model", "type": "ModelError", "message": "gone"}


def test_lists_the_episodes(collab: Collab, run: Path) -> None:
    result = collab("show", str(run))
    assert result.status == 0
    assert result.out.splitlines()[1].split()[-3:] == ["turns", "tokens", "flags"]
    assert [f"words/{n}#{k}" in result.out for n in range(3) for k in range(2)] == [True] * 6
    assert result.err == ""


def test_show_prints_the_gain_of_a_training_run(collab: Collab, run: Path) -> None:
    gain = {"before": 0.5, "after": 1.5, "gain": 1.0, "error": 0.25, "maximum": 2.0, "tasks": 4}
    gains = {"sampled": gain | {"solved_before": None, "solved_after": None}}
    about = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**about, "summary": {"gains": gains}}))
    lines = collab("show", str(run)).out.splitlines()
    assert "gain ± s.e." in lines[-2]
    expected = "sampled 4 0.50 of 2.00 1.50 of 2.00 +1.00 ± 0.25 - -"
    assert lines[-1].split() == expected.split()


@pytest.mark.parametrize("name", ["words/1#0", "2"])
def test_shows_one_episode(collab: Collab, run: Path, name: str) -> None:
    result = collab("show", str(run), name)
    assert "== words/1#0" in result.out
    assert "-- a observes: user\nSay w1." in result.out
    assert "-- b responds: 7 tokens" in result.out


def test_one_agent_only(collab: Collab, run: Path) -> None:
    result = collab("show", str(run), "words/1#0", "--agent", "b", "--turn", "1")
    assert "-- b responds" in result.out
    assert "-- a responds" not in result.out


def test_one_agent_of_episodes_that_failed_before_it_acted(collab: Collab, run: Path) -> None:
    lines = (run / "episodes.jsonl").read_text().splitlines()
    failed = {**json.loads(lines[0]), "turns": [], "failure": FAILURE}
    (run / "episodes.jsonl").write_text("\n".join([json.dumps(failed), *lines[1:]]) + "\n")
    result = collab("show", str(run), "--agent", "b")
    assert (result.status, result.out.count("-- b responds")) == (0, 5)
    assert "unknown agent 'c' of words/0#0, words/0#1" in collab("show", "out", "--agent", "c").err


def test_only_episodes_with_an_outcome_keep_their_numbers(collab: Collab, run: Path) -> None:
    lines = (run / "episodes.jsonl").read_text().splitlines()
    lines[4] = json.dumps({**json.loads(lines[4]), "turns": [], "failure": FAILURE})
    (run / "episodes.jsonl").write_text("\n".join(lines) + "\n")
    name = json.loads(lines[4])["id"]
    row = collab("show", str(run), "--outcome", "failed").out.splitlines()[-1]
    assert row.split()[:3] == ["4", name, "failed:"]
    [word] = {episode.outcome for episode in read_episodes(run)} - {"failed"}
    rest = collab("show", str(run), "--outcome", word, "--json").events
    assert [event["id"] for event in rest] == [e.id for e in read_episodes(run) if e.id != name]
    none = collab("show", str(run), "words/0", "--outcome", "failed", "--json")
    assert none.events == []
    assert none.err == "note: no episode here has the outcome 'failed'\n"
    assert "'not solved'" in collab("show", str(run), "--outcome", "lost").err


def test_a_problem_means_all_its_episodes(collab: Collab, run: Path) -> None:
    result = collab("show", str(run), "words/1", "--json")
    assert [event["id"] for event in result.events] == ["words/1#0", "words/1#1"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("words/1#7",), "did you mean 'words/1#"),
        (("words/1#0", "--turn", "2"), "no episode here has a turn 2; the longest has 1"),
        (("words/1#0", "--agent", "c"), "unknown agent 'c' of words/1#0"),
    ],
)
def test_unknown_parts(collab: Collab, run: Path, arguments: tuple[str, ...], message: str) -> None:
    result = collab("show", str(run), *arguments)
    assert result.status == 2
    assert message in result.err


def test_partial_run_is_shown_up_to_its_last_episode(collab: Collab, run: Path) -> None:
    episodes = (run / "episodes.jsonl").read_bytes().splitlines(keepends=True)
    (run / "episodes.jsonl").write_bytes(b"".join(episodes[:2]) + b"{}\n" + episodes[2][:50])
    about = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**about, "status": "running"}))
    result = collab("show", str(run))
    assert result.status == 0
    assert result.out.count("words/") == 2
    assert "line 3: not an episode" in result.err
    assert "skipped the last line" in result.err
    assert "is still running, or was killed: 2 of 6 episodes finished" in result.err


def test_run_without_run_json_is_shown_with_a_warning(collab: Collab, run: Path) -> None:
    (run / "run.json").unlink()
    result = collab("show", str(run))
    assert result.out.count("words/") == 6
    assert "warning: out is not a run's folder: run.json" in result.err


def test_replay_is_the_same(collab: Collab, run: Path) -> None:
    result = collab("replay", str(run))
    assert result.status == 0
    assert "the same: rewards and tokens of 6 episodes" in result.out
    assert not Path("runs").exists()


def test_replay_reports_differences(collab: Collab, run: Path, project: Path) -> None:
    rows = run / "data" / "words.jsonl"
    rows.write_text(rows.read_text().replace('"Say w1."', '"Say what."'))
    result = collab("replay", str(run), "--json")
    assert result.status == 1
    assert "differs: words/1#0: rewards [1.0], now [0.0]" in result.err
    assert result.events[-1]["type"] == "run.finished"


def test_replay_covers_only_recorded_episodes(collab: Collab, run: Path) -> None:
    lines = (run / "episodes.jsonl").read_bytes().splitlines(keepends=True)
    (run / "episodes.jsonl").write_bytes(b"".join(lines[:2]))
    result = collab("replay", str(run))
    assert result.status == 0
    assert "tokens of 2 episodes" in result.out


def test_evaluation_names_only_the_teams_that_count(collab: Collab) -> None:
    assert collab("eval", "pair", "-t", "words/0", "-m", "echo", "--out", "e").status == 0
    shutil.copytree("e/pair", "e/earlier")
    assert collab("show", "e").out.splitlines()[-1].endswith("; pair")


def test_replay_covers_samples_that_an_evaluation_no_longer_counts(collab: Collab) -> None:
    for samples in ("3", "1"):
        words = ("eval", "pair", "-t", "words/0", "-m", "echo", "-n", samples, "--out", "e")
        assert collab(*words).status == 0
    result = collab("replay", "e/pair")
    assert (result.status, result.err) == (0, "")
    assert "tokens of 3 episodes" in result.out


def test_rewards_of_a_training_run_are_added_up(collab: Collab, run: Path) -> None:
    first = (run / "episodes.jsonl").read_text()
    again = first.replace('"group":', '"group":1')  # a second epoch
    (run / "episodes.jsonl").write_text(first + again)
    (run / "training.yaml").write_text((run / "recipe.yaml").read_text())
    result = collab("replay", str(run))
    assert result.status == 0
    assert "out is a training run" in result.err
    assert "added up the recorded rewards of 12 episodes" in result.err


def test_agent_with_its_own_model_is_replayed_too(collab: Collab) -> None:
    settings = ("--set", "agents.a.model=echo")
    collab("run", "pair", "-t", "words/0", "-m", "echo", *settings, "--out", "own")
    Path("own/recipe.yaml").write_text(
        Path("own/recipe.yaml").read_text().replace("engine: echo", "engine: models.py:patient")
    )
    assert collab("replay", "own").status == 0


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
