"""`collab eval`: compare teams, resume, interrupt, kill."""

import json
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from support.command_line import Collab
from support.processes import start, wait_for_episode
from support.programs.held_model import HELD

from collab.evaluation.folder import read_results
from collab.records import read_episodes

pytestmark = pytest.mark.usefixtures("project", "shouting")
ECHO = ("eval", "pair", "shouting", "--model", "echo", "--out", "out")


def episodes_of(team: str) -> list[str]:
    return [episode.id for episode in read_episodes(Path("out") / team)]


def row(text: str, title: str) -> list[str]:
    """The cells of a table row."""
    line = next(line for line in text.splitlines() if line.startswith(title))
    return re.split(r"\s{2,}", line.removeprefix(title).strip())


def test_teams_are_shown_side_by_side_with_intervals(collab: Collab) -> None:
    result = collab(*ECHO, "--task", "words/0-5")
    assert result.status == 0, result.err
    assert "words: 6 problems, 1 sample, echo, seed 0" in result.out
    mine, other = row(result.out, "return")
    assert mine.startswith("1.00 [")
    assert other.startswith("0.50 [")
    assert row(result.out, "return %")[0].endswith(", 100.0]")
    assert "difference to pair, on the same problems" in result.out
    change = row(result.out.partition("difference")[2], "return")
    assert re.fullmatch(r"-0\.50 \[-0\.\d\d, [-+]0\.\d\d\]", change[0])
    assert "differences are paired by problem" in result.out
    assert "record: out" in result.out


def test_eval_shows_means_over_seeds(collab: Collab, project: Path) -> None:
    for seed in (0, 1):
        for name in ("pair", "shouting"):
            text = (project / "agents" / f"{name}.yaml").read_text()
            (project / "agents" / f"{name}-seed-{seed}.yaml").write_text(text)
    names = [f"{name}-seed-{seed}" for name in ("pair", "shouting") for seed in (0, 1)]
    result = collab("eval", *names, "--model", "echo", "--task", "words/0-3", "--out", "out")
    assert result.status == 0, result.err
    _, _, means = result.out.partition("means over seeds")
    lines = [line.split() for line in means.splitlines()]
    assert lines[1:3] == [["pair", "shouting"], ["seeds", "0,", "1", "0,", "1"]]
    assert "1.00 (all 2 equal)" in means
    assert "difference to pair, paired by seed" in means
    assert "-0.50 (all 2 equal)" in means
    assert "means over seeds have 95 % t intervals over seeds" in means


def test_a_dry_run_plans_every_team_and_plays_none(collab: Collab) -> None:
    arguments = (*ECHO, "--task", "words/0-3", "--samples", "2", "--dry-run")
    limit = ("--set", "sampling.max_new_tokens=10")
    result = collab(*arguments, *limit)
    assert result.status == 0, result.err
    reason = result.out.splitlines()
    each = "8 episodes (4 x 2), at most 160 new tokens in 16 responses"
    assert reason.count(each) == reason.count("problems: words/0, words/1, words/2, words/3") == 2
    assert [line for line in reason if line in ("pair:", "shouting:")] == ["pair:", "shouting:"]
    total = "in all: 16 episodes, at most 320 new tokens in 32 responses; pass@k for k = 1"
    assert reason[-1] == total
    (plan,) = collab(*arguments, *limit, "--json").events
    assert {name: team["calls"] for name, team in plan["teams"].items()} == {
        "pair": 16, "shouting": 16,
    }  # fmt: skip
    assert not Path("out").exists()
    assert collab("eval", "pair", "--task", "words/99", "--dry-run").status == 2


def test_second_call_plays_no_episode_again(collab: Collab) -> None:
    first = collab(*ECHO, "--task", "words/0-3", "--json")
    written = Path("out/pair/episodes.jsonl").read_bytes()
    second = collab(*ECHO, "--task", "words/0-3", "--json")
    assert [e["type"] for e in second.events if e["type"].startswith("episode")] == []
    assert Path("out/pair/episodes.jsonl").read_bytes() == written
    assert numbers(first.events[-1]) == numbers(second.events[-1])


def numbers(finished: dict[str, Any]) -> list[dict[str, Any]]:
    return [team["metrics"] for team in finished["results"]["teams"]]


def test_more_samples_and_problems_play_only_what_is_missing(collab: Collab) -> None:
    collab(*ECHO, "--task", "words/0-1")
    result = collab(*ECHO, "--task", "words/0-2", "--samples", "2")
    assert "pair: 4 episodes to run, 2 recorded" in result.out
    assert episodes_of("pair") == [
        "words/0#0", "words/1#0", "words/0#1", "words/1#1", "words/2#0", "words/2#1",
    ]  # fmt: skip
    fewer = collab(*ECHO, "--task", "words/2", "--json").events[-1]["results"]
    assert [team["episodes"] for team in fewer["teams"]] == [1, 1]


@pytest.mark.parametrize(
    ("line", "how"),
    [
        ((*ECHO[:2], *ECHO[3:]), "the team shouting is missing now"),
        ((*ECHO, "--greedy"), "pair: team.agents.a.sampling"),
        ((*ECHO, "--set", "task.source.path=tasks/others.jsonl"), "pair: task.source.path was"),
    ],
)
def test_the_numbers_of_an_evaluation_that_is_done_are_kept(
    collab: Collab, project: Path, line: tuple[str, ...], how: str
) -> None:
    rows = (project / "tasks" / "words.jsonl").read_text()
    (project / "tasks" / "others.jsonl").write_text(rows.replace("w0", "w9"))
    collab(*ECHO, "--task", "words/0-1")
    before = Path("out/eval.json").read_bytes()
    result = collab(*line, "--task", "words/0-1")
    assert (result.status, Path("out/eval.json").read_bytes()) == (2, before), result.err
    assert f"its numbers would be lost: {how}" in result.err
    assert "choose another folder with --out" in result.err


def test_eval_json_of_the_user_is_kept(collab: Collab) -> None:
    Path("out").mkdir()
    Path("out/eval.json").write_text("mine")
    result = collab(*ECHO, "--task", "words/0")
    assert (result.status, Path("out/eval.json").read_text()) == (2, "mine")
    assert "not an evaluation" in result.err
    assert "choose another folder with --out" in result.err


def test_killed_evaluation_is_shown_as_killed(collab: Collab) -> None:
    collab(*ECHO, "--task", "words/0")
    file = Path("out/eval.json")
    file.write_text(file.read_text().replace('"status": "done"', '"status": "running"'))
    assert "the evaluation is killed" in collab("show", "out").err
    assert collab("show", "out", "--json").events[0]["status"] == "killed"


def test_json_lines_begin_and_end_with_the_evaluation(collab: Collab) -> None:
    events = collab(*ECHO, "--task", "words/0-1", "--json").events
    types = [event["type"] for event in events]
    assert (types[0], types[-1]) == ("eval.started", "eval.finished")
    assert types.count("team.started") == types.count("team.finished") == 2
    assert types.count("episode.finished") == 4
    assert events[-1]["results"] == json.loads(Path("out/eval.json").read_text())


def test_the_schema_of_the_results_is_stable(collab: Collab) -> None:
    results = collab(*ECHO, "--task", "words/0-1", "--json").events[-1]["results"]
    assert list(results) == [
        "evaluation", "status", "suite", "tasks", "samples", "k", "seed", "levels", "best_levels",
        "confidence", "notes", "command", "versions", "teams", "differences",
        "over_seeds",
    ]  # fmt: skip
    team = results["teams"][0]
    assert list(team) == [
        "label", "folder", "team", "protocol", "turns", "models", "identity", "planned",
        "episodes", "failed", "failures", "failure", "maximum", "most", "metrics", "speed",
        "concurrency", "agents",
    ]  # fmt: skip
    assert set(team["metrics"]) == {
        "return", "return/share", "tokens/in_sequence", "level/right", "value/right",
    }  # fmt: skip
    assert list(team["metrics"]["return"]) == ["mean", "low", "high", "tasks"]
    assert list(team["speed"]) == ["seconds", "tokens_per_second", "seconds_per_response"]
    assert team["agents"]["a"] == {
        "responses": 2, "prompt_tokens": 14, "new_tokens": 14, "cost": None,
    }  # fmt: skip
    assert list(results["differences"][0]) == ["team", "baseline", "metrics"]


def test_folder_of_an_evaluated_team_is_an_ordinary_run(collab: Collab) -> None:
    collab(*ECHO, "--task", "words/0-1")
    shown = collab("show", "out/pair")
    assert "words/1#0" in shown.out
    assert shown.err == ""
    for words in (["replay", "out"], ["show", "out", "words/0"], ["show", "out", "--turn", "1"]):
        refused = collab(*words)
        message = "out is an evaluation; name one of its teams: out/pair, out/shouting"
        assert message in refused.err
    replayed = collab("replay", "out/shouting")
    assert (replayed.status, replayed.err) == (0, "")
    again = collab("eval", "out/pair", "--task", "words/2")
    assert again.status == 0, again.err


def test_greedy_sets_every_agent_to_temperature_0(collab: Collab) -> None:
    collab(*ECHO, "--task", "words/0", "--greedy", "--set", "agents.a.sampling.temperature=0.7")
    recipe = Path("out/pair/recipe.yaml").read_text()
    assert recipe.count("temperature: 0.0") == 2
    assert "0.7" not in recipe
    line = (*ECHO, "--task", "words/0", "--greedy", "--set", "sampling.temperature=0.7")
    assert "agents.NAME.sampling has its own" not in collab(*line, "--dry-run").out


def test_failed_episodes_are_excluded_from_the_means(collab: Collab, project: Path) -> None:
    (project / "script.yaml").write_text("[{failure: the line is dead}, x, Say w1., Say w1.]")
    line = ("eval", "pair", "-t", "words/0-1", "--model", "scripted:script.yaml", "--out", "out")
    result = collab(*line)
    assert result.status == 0, result.err
    assert "pair: 1 of 2 episodes failed (ModelError 1) and do not count" in result.out
    assert row(result.out, "failed") == ["1 of 2"]
    assert read_results(Path("out")).teams[0].metrics["return"].mean == 1.0


@pytest.mark.parametrize(("chosen", "mean"), [("pair", 0.25), ("runs/first", 1.0), ("first", 1.0)])
def test_changed_reward_is_refused_until_one_is_chosen(
    collab: Collab, project: Path, chosen: str, mean: float
) -> None:
    collab("run", "pair", "-t", "words/0", "-m", "echo", "--out", "runs/first")
    (project / "parts.py").write_text("def right(context):\n    return 0.25\n")
    both = ("eval", "pair", "runs/first", "-t", "words/0", "-m", "echo", "--out", "out")
    refused = collab(*both)
    assert refused.status == 2
    why = "or the files of these rewards, differ"
    assert f"{why}; choose one reward for all with --reward-from pair, or" in refused.err
    done = collab(*both, "--reward-from", chosen)
    assert done.status == 0, done.err
    results = read_results(Path("out"))
    assert [team.metrics["return"].mean for team in results.teams] == [mean, mean]


def test_own_suite_given_by_file_needs_no_reward_choice(collab: Collab, project: Path) -> None:
    collab("run", "pair", "-t", "words/0", "-m", "echo", "--out", "runs/first")
    (project / "parts.py").write_text("def right(context):\n    return 0.25\n")
    done = collab("eval", "pair", "runs/first", "-t", "tasks/words.yaml/0", "-m", "echo")
    assert (done.status, done.err) == (0, "")


def test_team_whose_episodes_all_fail_is_an_error(collab: Collab, project: Path) -> None:
    (project / "script.yaml").write_text("[{failure: the line is dead}, x]")
    result = collab("eval", "pair", "-t", "words/0", "--model", "scripted:script.yaml")
    assert result.status == 1
    assert (
        "every episode of pair failed (1 of 1); first failure: ModelError: the line" in result.err
    )
    assert row(result.out, "failed") == ["1 of 1"]


def test_cost_covers_the_whole_evaluation(collab: Collab, project: Path) -> None:
    paid = HELD.replace("new_tokens=3", "new_tokens=3, cost=0.25")
    (project / "paid.py").write_text(paid)
    result = collab("eval", "pair", "-t", "words/0-1", "--model", "paid.py:held")
    assert row(result.out, "cost of b") == ["$0.5000"]
    assert row(result.out, "tokens of b") == ["3.0"]
    assert "new tokens per episode, total cost; speed with" in result.out
    assert "cost of all" not in collab(*ECHO, "--task", "words/0").out


BAD = {
    "folder": (("nothing", "-t", "words/0"), "the folder 'nothing' contains no recipe.yaml"),
    "twice": (("pair", "pair", "-t", "words/0"), "'pair' is given twice"),
    "empty": (("pair", "-t", "empty.jsonl"), "the suite 'empty' is empty"),
    "split": (("pair", "-t", "words", "--split", "frist"), "did you mean 'first'?"),
    "no splits": (("pair", "-t", "bare.jsonl", "--split", "test"), "has no splits"),
    "two selections": (("pair", "-t", "words/1", "--split", "first"), "needs a whole suite"),
    "k": (("pair", "-t", "words/0", "-n", "4", "--k", "1,10"), "use --samples 10, or leave 10 out"),
    "no number": (("pair", "-t", "words/0", "--k", "one"), "--k takes numbers"),
    "greedy": (("pair", "-t", "words/0", "--greedy", "-n", "2"), "samples are all equal"),
    "greedy samples": (
        ("pair", "-t", "words/0", "--greedy", "--set", "samples=3"),
        "so 3 of them add nothing",
    ),
    "rewards": (("mine.yaml", "other.yaml"), "the rewards of their suites"),
    "template": (("pair", "wrong", "-t", "words/0"), "error: wrong: team.agents.a.prompt"),
    "plan": (("pair", "wrong", "-t", "words/0", "--dry-run"), "error: wrong: team.agents.a.prompt"),
    "one team": (("wrong", "-t", "words/0"), "error: team.agents.a.prompt"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_usage_is_one_message(case: str, collab: Collab, project: Path) -> None:
    (project / "nothing").mkdir()
    (project / "empty.jsonl").write_text("")
    (project / "bare.jsonl").write_text('{"prompt": "a", "entry_point": "b", "test": "c"}\n')
    (project / "agents" / "wrong.yaml").write_text('agents:\n  a: {prompt: "{{ task.wrod }}"}\n')
    recipe = "{team: pair, task: {extends: words, reward: {parts: {right: {weight: 2}}}}}"
    (project / "other.yaml").write_text(recipe)
    (project / "mine.yaml").write_text("{team: pair, task: words}")
    arguments, message = BAD[case]
    result = collab("eval", *arguments, "--model", "echo")
    assert message in result.err
    assert (result.status, result.out) == (2, "")
    assert not Path("evals").exists() or not any(Path("evals").iterdir())


def test_a_warning_names_its_team(collab: Collab, project: Path) -> None:
    team = 'extends: pair\nagents: {b: {discuss: "Talk."}}\n'
    (project / "agents" / "talking.yaml").write_text(team)
    arguments = ("talking", "-t", "words/0", "-m", "echo")
    assert "warning: talking: team.agents.b.discuss" in collab("eval", "pair", *arguments).err
    assert "warning: team.agents.b.discuss" in collab("eval", *arguments).err


def test_a_dry_run_refuses_what_cannot_be_selected(collab: Collab) -> None:
    result = collab(
        "eval", "pair", "-t", "words", "-m", "echo", "--select", "examples", "--dry-run"
    )
    assert (result.status, result.out) == (2, "")
    assert "--select examples needs a suite of kind 'code'" in result.err


def test_a_tester_must_be_an_agent(collab: Collab) -> None:
    arguments = ("eval", "coding-tested", "--task", "humaneval/0", "--model", "echo", "--dry-run")
    result = collab(*arguments, "--select", "examples", "--tester", "testr")
    assert result.status == 2
    assert "unknown agent 'testr'; did you mean 'tester'?" in result.err
    assert "--tester needs --select examples" in collab(*arguments, "--tester", "tester").err


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
