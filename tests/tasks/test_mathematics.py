"""GSM8K and MATH: rows in the published formats; right, wrong and hostile answers."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from support.scoring import joined_score, reward_of

import collab
from collab.errors import TaskError
from collab.recipe import load_task
from collab.records import Problem
from collab.rewards import Scorer
from collab.tasks import open_suite

GSM = [
    {"question": "Two and two thousand?", "answer": "2+2000=<<2+2000=2002>>2,002\n#### 2,002"},
    {"question": "Ten less twelve?", "answer": "10-12 is -2.\n#### -2"},
]
MATH: list[dict[str, Any]] = [
    {"problem": "Half?", "solution": r"It is $\boxed{\frac{1}{2}}$.", "level": "Level 1",
     "type": "Algebra"},
    {"problem": "Root?", "solution": "", "answer": r"3\sqrt{2}", "level": 2, "subject": "Algebra"},
    {"problem": "Five?", "solution": r"So \boxed 5.", "level": "Level 1", "type": "Algebra"},
]  # fmt: skip


def problems(tmp_path: Path, name: str, rows: list[dict[str, Any]]) -> list[Problem]:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return open_suite(load_task(name, settings=[f"task.source.path={path}"])).select("")


def right(name: str, expected: str, response: str) -> bool:
    problem = Problem(address="m/0", public={"prompt": "?"}, hidden={"answer": expected})
    scorer = Scorer(reward_of(load_task(name)), None)
    score = asyncio.run(joined_score(scorer, problem, {"actor": response}, ["actor"], "text"))
    assert score.solved == (score.reward == 1.0)
    assert score.maximum == 1.0
    return bool(score.solved)


def test_rows_are_read_and_the_answer_is_hidden(tmp_path: Path) -> None:
    found = problems(tmp_path, "gsm8k", GSM)
    assert [problem.hidden["answer"] for problem in found] == ["2002", "-2"]
    assert set(found[0].public) == {"prompt"}
    found = problems(tmp_path, "math-500", MATH)
    assert [problem.hidden["answer"] for problem in found] == [r"\frac{1}{2}", r"3\sqrt{2}", "5"]
    assert found[0].public == {"prompt": "Half?", "level": 1, "subject": "Algebra"}


@pytest.mark.parametrize(
    ("solution", "answer"),
    [
        (r"It is $\boxed 3$, that is \frac{6}{2}.", "3"),
        (r"So \boxed 3 ... \frac{6}{2}", "3"),
        (r"So \fbox 12, as {said}.", "12"),
        (r"So \(\boxed 7\) in all {of them}.", "7"),
        (r"So \boxed5 and {more}.", "5"),
        (r"So \boxed {a{b}c} and {more}.", "a{b}c"),
        (r"First \boxed{1}, then \fbox{2}.", "2"),
        (r"The \boxed{1} of \boxedcontent{2}.", "1"),
    ],
)
def test_answer_is_the_content_of_the_last_box(tmp_path: Path, solution: str, answer: str) -> None:
    (found,) = problems(tmp_path, "math-500", [{"problem": "?", "solution": solution}])
    assert found.hidden["answer"] == answer


def test_an_answer_may_be_the_number_0(tmp_path: Path) -> None:
    (found,) = problems(tmp_path, "math-500", [{"problem": "?", "answer": 0}])
    assert found.hidden["answer"] == "0"


@pytest.mark.parametrize(
    ("row", "level"),
    [
        ({"level": "Level 5"}, 5), ({"level": 2}, 2), ({"level": "3"}, 3), ({"level": 4.0}, 4),
        ({"level": "Level ?"}, None), ({"level": None}, None), ({}, None),
    ],
)  # fmt: skip
def test_level_is_a_number_or_none(tmp_path: Path, row: dict[str, Any], level: int | None) -> None:
    found = problems(tmp_path, "math-500", [{"problem": "?", "answer": "1", **row}])
    assert found[0].public.get("level") == level
    assert ("level" in found[0].public) == (level is not None)


@pytest.mark.parametrize(
    ("name", "row", "message"),
    [
        ("gsm8k", {"question": "?", "answer": "7"}, "line 1: .*no number after ####"),
        ("gsm8k", {"question": "?"}, "'answer' is missing"),
        ("math-500", {"problem": "?", "solution": "no box"}, "no answer"),
        ("math-500", {"problem": "?", "solution": r"\boxed{{{"}, "no answer"),
    ],
)
def test_row_needs_an_answer(tmp_path: Path, name: str, row: dict[str, Any], message: str) -> None:
    with pytest.raises(TaskError, match=message):
        problems(tmp_path, name, [row])


@pytest.mark.parametrize(
    ("expected", "response"),
    [
        ("2002", "so\n#### 2,002"),
        ("2002", r"It is \boxed{2002}."),
        ("2002", r"\boxed{7} no: \boxed{\$2002.00}"),
        ("-2", "The answer is -2."),
        ("72", "#### 72 clips"),
        ("50", "Answer: 50%"),
        ("0.5", "#### .5"),
    ],
)
def test_correct_numbers_are_accepted(expected: str, response: str) -> None:
    assert right("gsm8k", expected, response)


HOSTILE = [
    "", "2002", "####", "#### nan", "#### inf", "#### 1e999", "#### 2e3", "#### 5 or 2002",
    "#### 2002 2003", "#### 2002 + 0", r"\boxed{2002", r"\boxed{}", r"\boxed{2002} \boxed{1}",
    "#### 2002\n#### 7", "#### 9**9**9**9", "#### 2002/1", "#### " + "2002 " * 9, "#### ２００２",
    "#### " + "9" * 10**6, r"\boxed{" * 50_000, r"\boxed{" + "{" * 10**6, "answer is " * 50_000,
    r"\boxed{__import__('os').system('true')}", "#### 2002\x00", "\ud800 #### 1",
]  # fmt: skip


@pytest.mark.parametrize("name", ["gsm8k", "math-500"])
def test_hostile_answers_are_rejected_quickly(name: str) -> None:
    started = time.perf_counter()
    wrong = [text for text in HOSTILE if not right(name, "2002", text)]
    assert {*HOSTILE} - {*wrong} == {"#### 2002\x00" if name == "gsm8k" else "#### 2002/1"}
    assert time.perf_counter() - started < 20


@pytest.mark.parametrize(
    ("expected", "answer"),
    [
        (r"\frac{1}{2}", r"\dfrac12"), (r"\frac{1}{2}", "0.5"), (r"\frac{1}{2}", "1/2"),
        (r"3\sqrt{2}", r"3 \sqrt2"), ("5", "x = 5"), ("90", r"90^\circ"), ("10", r"10\text{ cm}"),
        (r"\text{odd}", "odd"), ("1000", "1,000"), (r"(1,2)", r"\left( 1, 2 \right)"),
        (r"-\frac{3}{4}", "-.75"),
    ],
)  # fmt: skip
def test_equivalent_latex_is_accepted(expected: str, answer: str) -> None:
    assert right("math-500", expected, rf"So $\boxed{{{answer}}}$.")
    assert right("math-500", expected, f"The answer is: ${answer}$")
    assert right("math-500", expected, f"The answer is : ${answer}$\nanswer is:")


@pytest.mark.parametrize(
    ("expected", "answer"),
    [("(1,2)", "(2,1)"), (r"\frac{1}{2}", r"\frac{2}{1}"), ("x+1", "x-1"), ("(1,200)", "1200")],
)
def test_different_latex_is_rejected(expected: str, answer: str) -> None:
    assert not right("math-500", expected, rf"So $\boxed{{{answer}}}$.")


def test_derived_suite_keeps_unchanged_settings() -> None:
    spec = load_task("math-algebra")
    assert (spec.source.hub, spec.source.split) == ("EleutherAI/hendrycks_math", "train+test")
    assert spec.hidden == ("answer", "solution")


@pytest.mark.parametrize("team", ["reasoner-actor", "reasoner-single"])
def test_only_the_answer_of_the_actor_counts(tmp_path: Path, team: str) -> None:
    (tmp_path / "rows.jsonl").write_text(json.dumps(GSM[0]))
    answers = tmp_path / "answers.yaml"
    reasoner = r"reasoner: ['\boxed{7}']," if team == "reasoner-actor" else ""
    answers.write_text("{" + reasoner + r" actor: ['\boxed{2002}']}")
    settings = [f"task.source.path={tmp_path / 'rows.jsonl'}"]
    loaded = collab.load(team, task="gsm8k", model=f"scripted:{answers}", settings=settings)
    episode = loaded.run("gsm8k/0").episode
    assert episode.turns[-1].score is not None
    assert episode.turns[-1].score.solved
