"""`collab diff`: settings and results of two recorded runs."""

import json
from pathlib import Path

import pytest
from support.command_line import Collab

pytestmark = pytest.mark.usefixtures("project")


def played(collab: Collab, out: str, *more: str) -> None:
    words = ["run", "pair", "-t", "words/0-4", "--out", out, "-m", "echo", *more]
    result = collab(*words)
    assert result.status == 0, result.err


def zero_rewards(folder: str, number: int) -> None:
    """Set the rewards of a run's first problems to zero."""
    path = Path(folder, "episodes.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows[:number]:
        for turn in row["turns"]:
            turn["score"]["reward"] = 0.0
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def test_settings_that_differ_and_results_paired_by_problem(collab: Collab) -> None:
    played(collab, "a")
    played(collab, "b", "--seed", "7", "--set", "agents.a.role=Be brief.")
    zero_rewards("a", 4)
    [outcome] = collab("diff", "a", "b", "--json").events
    assert {s["key"]: (s["first"], s["second"]) for s in outcome["settings"]} == {
        "seed": ("0", "7"),
        "team.agents.a.role": ("", "Be brief."),
    }
    pair = outcome["metrics"]["return"]
    assert (pair["first"]["mean"], pair["second"]["mean"]) == (pytest.approx(0.2), 1.0)
    difference = pair["difference"]
    assert difference["mean"] == pytest.approx(0.8)
    assert difference["low"] < 0.8 < difference["high"] <= 1.0
    assert outcome["shared"] == 5
    message = collab("diff", "a", "b").out
    assert "team.agents.a.role" in message
    assert "+0.80 [" in message
    assert "on the 5 problems that both ran" in message


def test_runs_without_a_common_problem(collab: Collab) -> None:
    played(collab, "a")
    assert collab("run", "pair", "-t", "words/6", "-m", "echo", "--out", "b").status == 0
    message = collab("diff", "a", "b")
    assert "note: the two share no problem" in message.out
    assert "B less A" not in message.out


def test_runs_without_a_score_are_compared_by_their_settings(collab: Collab) -> None:
    for folder in ("a", "b"):
        collab("run", "pair", "--prompt", "hello", "-m", "echo", "--out", folder)
    message = collab("diff", "a", "b").out
    assert "A a: pair, 1 problem, done" in message
    assert "note: the answers of b are not scored" in message
    assert "share no problem" not in message
    played(collab, "c")
    assert "None" not in collab("diff", "a", "c").out


def test_changed_functions_are_listed(collab: Collab) -> None:
    played(collab, "a")
    played(collab, "b")
    for name, text in (("a", "1"), ("b", "2")):
        Path(name, "functions").mkdir(exist_ok=True)
        Path(name, "functions", "mine.py").write_text(text)
    [outcome] = collab("diff", "a", "b", "--json").events
    assert [s["key"] for s in outcome["settings"]] == ["functions/mine.py"]


def test_changed_function_of_the_reward_is_noted(collab: Collab) -> None:
    for out, value in (("a", 0.5), ("b", 1.0)):
        Path("mine.py").write_text(f"def worth(context):\n    return {value}\n")
        played(collab, out, "--set", "task.reward={parts: {x: {use: 'mine.py:worth'}}}")
    assert "note: the rewards differ, so points are not comparable" in collab("diff", "a", "b").out


def test_evaluations_are_compared_team_by_team(collab: Collab) -> None:
    text = Path("agents/pair.yaml").read_text()
    Path("agents/other.yaml").write_text(text)
    for out, seed in (("e", "0"), ("f", "1")):
        words = ["eval", "pair", "other", "-t", "words", "-m", "echo", "--seed", seed]
        assert collab(*words, "--out", out).status == 0
    outcome = collab("diff", "e", "f", "--json").events
    assert [(one["first"]["folder"], one["second"]["folder"]) for one in outcome] == [
        ("e/other", "f/other"),
        ("e/pair", "f/pair"),
    ]
    played(collab, "a")
    result = collab("diff", "e", "a")
    assert result.status == 2
    assert "no team is in both; specify two folders of e/other, e/pair and a" in result.err
    assert "error: g does not exist" in collab("diff", "e", "g").err
    refused = collab("eval", "e", "-t", "words").err
    assert "so it is not a team; specify e/other or e/pair" in refused


def test_only_what_an_evaluation_counts_is_compared(collab: Collab) -> None:
    words = ["eval", "pair", "-m", "echo", "--out", "e"]
    assert collab(*words, "-t", "words").status == 0
    assert collab(*words, "-t", "words/0-2").status == 0
    assert json.loads(Path("e/pair/run.json").read_text())["summary"]["episodes"] == 3
    file = Path("e/eval.json")
    file.write_text(file.read_text().replace('"status": "done"', '"status": "interrupted"'))
    assert collab(*words, "-t", "words/0-2", "--seed", "1").status == 0
    [outcome] = collab("diff", "e", "e", "--json").events
    assert (outcome["first"]["folder"], outcome["first"]["problems"]) == ("e/pair-2", 3)
    [outcome] = collab("diff", "e/pair", "e/pair-2", "--json").events
    assert outcome["first"]["problems"] == 3


def test_training_runs_without_held_out_evaluations_are_noted(collab: Collab) -> None:
    played(collab, "a")
    Path("a/training.yaml").write_text(Path("a/recipe.yaml").read_text())
    note = "note: a has no held-out evaluation; its training episodes count"
    assert note in collab("diff", "a", "a").out


def evaluation(step: int, **returns: float) -> str:
    sampled = {
        f"words/{name}": {"joint_return": value, "solved": None, "maximum": 4.0}
        for name, value in returns.items()
    }
    return json.dumps({"type": "evaluation.finished", "step": step, "sampled": sampled}) + "\n"


def test_training_runs_are_compared_before_and_after(collab: Collab) -> None:
    for out, gain in (("a", 1.0), ("b", 2.0)):
        played(collab, out)
        Path(out, "training.yaml").write_text(Path(out, "recipe.yaml").read_text())
        rows = [evaluation(0, x=0.0, y=1.0), evaluation(5, x=gain, y=1.0 + gain)]
        Path(out, "metrics.jsonl").write_text("".join(rows))
    [outcome] = collab("diff", "a", "b", "--json").events
    assert outcome["metrics"]["return"]["difference"]["mean"] == 1.0
    assert [outcome[side]["gain"]["return"]["mean"] for side in ("first", "second")] == [1.0, 2.0]
    assert outcome["first"]["before"]["return"]["mean"] == 0.5
    message = collab("diff", "a", "b").out
    assert "held out" in message
    assert "+2.00 [" in message


def test_only_different_rows_are_noted_not_other_data(collab: Collab) -> None:
    def run(out: str, word: str, answer: str) -> None:
        row = {"word": word, "answer": word}
        Path("tasks/words.jsonl").write_text(2 * (json.dumps(row) + "\n"))
        Path("script.yaml").write_text(f"{{a: [{answer}], b: [{answer}]}}\n")
        model = "scripted:script.yaml"
        result = collab("run", "pair", "-t", "words/0", "--model", model, "--out", out)
        assert result.status == 0, result.err

    run("first", "one", "x")
    run("answer", "one", "y")
    run("word", "two", "x")
    note = "the rows differ"
    assert note not in collab("diff", "first", "answer").out
    assert note in collab("diff", "first", "word").out
