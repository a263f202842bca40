"""Several sources together: order, time limits, required sources, and custom functions."""

import asyncio
import time
from pathlib import Path
from typing import Any, NoReturn

import pytest
from pydantic import TypeAdapter
from support.static_findings import OutcomeOf

from collab.errors import FeedbackError, FeedbackUnavailable, RecipeError
from collab.feedback import Outcome, gather, open_sources
from collab.recipe import FeedbackSpec, Recipe
from collab.recipe.feedback import SOURCES
from collab.recipe.load import validate
from collab.records import Failure, Feedback, Problem
from collab.sandbox import Sandbox

Told = tuple[dict[str, tuple[Feedback, ...]], tuple[Failure, ...]]

FUNCTIONS = """\
import asyncio, time
from collab.records import Feedback

def praise(outcome, word: str = "good"):
    return {agent: f"{agent}: {word}" for agent in outcome.agents}
async def later(outcome):
    await asyncio.sleep(0)
    return {"main": Feedback(source="me", text="later")}
def blocks(outcome): time.sleep(1)
def raises(outcome): raise KeyError("nothing there")
def stranger(outcome): return {"nobody": "hello"}
def number(outcome): return {"main": 3}
def listing(outcome): return ["main"]
def everyone(outcome): return "Remember to return a value."
def everyone_at_length(outcome): return Feedback(source="me", text="Think.")
def spy(outcome): return {"main": repr(outcome)}
"""


@pytest.fixture(autouse=True)
def _functions(here: Path) -> None:
    (here / "mine.py").write_text(FUNCTIONS)


def no_model(_: object) -> NoReturn:
    raise AssertionError("no model is needed")


def gather_feedback(outcome: Outcome, *written: Any, sandbox: Any = None) -> Told:
    specs = TypeAdapter(tuple[FeedbackSpec, ...]).validate_python(written)

    async def go() -> Told:
        sources = open_sources(specs, sandbox=sandbox, open_model=no_model)
        try:
            return await gather(sources, specs, outcome)
        finally:
            for source in sources:
                await source.aclose()

    return asyncio.run(go())


def test_feedback_comes_in_the_order_of_the_recipe(outcome_of: OutcomeOf) -> None:
    outcome = outcome_of(aux="", main="")
    praise = {"source": "mine.py:praise", "options": {"word": "fine"}}
    feedback, failures = gather_feedback(outcome, "mine.py:later", "solved", "self", praise)
    assert [item.text for item in feedback["main"]] == [
        "later",
        "Result: not solved yet.",
        "",
        "main: fine",
    ]
    assert [item.source for item in feedback["aux"]] == ["solved", "self", "mine.py:praise"]
    assert failures == ()


def test_solved_source_reports_one_bit(outcome_of: OutcomeOf) -> None:
    feedback, _ = gather_feedback(outcome_of(main="", solved=True), "solved")
    assert feedback["main"][0].text == "Result: solved."
    with pytest.raises(FeedbackError, match="does not say whether demo/0 is solved"):
        gather_feedback(outcome_of(main="", solved=None), "solved")


def test_an_outcome_holds_nothing_hidden(outcome_of: OutcomeOf) -> None:
    outcome = outcome_of(main="")
    assert outcome.problem.hidden == {}
    feedback, _ = gather_feedback(outcome, "mine.py:spy")
    assert "hidden_marker" not in feedback["main"][0].text
    assert "sum_of_squares" in feedback["main"][0].text


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("raises", "feedback 'mine.py:raises': mine.py:10: KeyError: 'nothing there'"),
        ("stranger", "names 'nobody'; the team: aux, main"),
        ("number", "has a int for main"),
        ("listing", "returned a list; a source returns text for all agents, or a dict"),
    ],
)
def test_failing_source_is_a_failure(outcome_of: OutcomeOf, function: str, message: str) -> None:
    outcome = outcome_of(aux="", main="")
    with pytest.raises(FeedbackError, match="feedback") as caught:
        gather_feedback(outcome, f"mine.py:{function}")
    assert message in str(caught.value)
    feedback, failures = gather_feedback(
        outcome, {"source": f"mine.py:{function}", "required": False}, "mine.py:praise"
    )
    assert [item.text for item in feedback["aux"]] == ["aux: good"]
    assert [(f.boundary, f.type) for f in failures] == [("feedback", "FeedbackError")]
    assert message in failures[0].message
    assert (failures[0].traceback is not None) == (function == "raises")


def test_plain_text_feedback_goes_to_every_agent(outcome_of: OutcomeOf) -> None:
    outcome = outcome_of(aux="", main="")
    feedback, _ = gather_feedback(outcome, "mine.py:everyone", "mine.py:everyone_at_length")
    for agent in ("aux", "main"):
        assert [item.text for item in feedback[agent]] == ["Remember to return a value.", "Think."]


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("statik", "unknown feedback 'statik'; did you mean 'static'?"),
        ({"source": "exprt"}, "did you mean 'expert'?"),
        ("nonsense", f"known: {', '.join(sorted(SOURCES))} (or file.py:function)"),
    ],
)
def test_misspelled_source_names_the_nearest_one(written: Any, message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        validate(Recipe, {"team": {"agents": {"a": {"prompt": ""}}, "feedback": [written]}}, "r")
    assert message in str(caught.value)
    assert "pattern" not in str(caught.value)


def test_blocking_source_times_out(outcome_of: OutcomeOf) -> None:
    started = time.perf_counter()
    with pytest.raises(FeedbackError, match=r"took longer than 0\.1 s"):
        gather_feedback(outcome_of(main=""), {"source": "mine.py:blocks", "seconds": 0.1})
    assert time.perf_counter() - started < 0.6


def test_failure_of_one_source_keeps_the_feedback_of_the_others(outcome_of: OutcomeOf) -> None:
    blocks = {"source": "mine.py:blocks", "seconds": 0.1, "required": False}
    feedback, failures = gather_feedback(outcome_of(main=""), blocks, "solved")
    assert feedback["main"][0].source == "solved"
    assert "0.1 s" in failures[0].message


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"source": "mine.py:prais"}, "did you mean 'praise'?"),
        ({"source": "mine.py:praise", "options": {"wrd": "x"}}, "did you mean 'word'?"),
        ({"source": "mine.py:praise", "options": {"word": 3}}, "option 'word'"),
    ],
)
def test_mistakes_are_found_when_sources_open(spec: Any, message: str) -> None:
    specs = TypeAdapter(tuple[FeedbackSpec, ...]).validate_python([spec])
    with pytest.raises(RecipeError) as caught:
        open_sources(specs, sandbox=Sandbox(), open_model=no_model)
    assert message in str(caught.value)


def test_missing_tool_names_its_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    specs = TypeAdapter(tuple[FeedbackSpec, ...]).validate_python(
        [{"source": "static", "tools": ["ast", "ruff"]}]
    )
    with pytest.raises(FeedbackUnavailable, match="pip install ruff") as caught:
        open_sources(specs, sandbox=Sandbox(), open_model=no_model)
    assert caught.value.exit_status == 2


@pytest.mark.parametrize("source", ["static", "execution"])
def test_sources_about_programs_refuse_other_tasks(
    outcome_of: OutcomeOf, sandbox: Any, source: str
) -> None:
    problem = Problem(address="tldr/3", public={"prompt": "A long text."})
    outcome = outcome_of(problem=problem, join="text", concise="a", detailed="b")
    with pytest.raises(FeedbackError, match=r"tldr/3 is not a code problem.*use self, expert or"):
        gather_feedback(outcome, source, sandbox=sandbox)
