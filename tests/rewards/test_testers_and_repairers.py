"""Rewards of agents that write tests, and of agents that repair a program."""

from collections.abc import Callable
from typing import Any

import pytest
from support.scoring import Score_

from collab.recipe.team import roles_of
from collab.records import PartScore, Problem

RIGHT = "def sum_of_squares(xs):\n    return sum(x * x for x in xs)"
WRONG = "def sum_of_squares(xs):\n    return sum(xs)"
GOOD = "assert sum_of_squares([2]) == 4\nassert sum_of_squares([0]) == 0"
BLIND = "assert sum_of_squares([1]) == 1"
FALSE = "assert sum_of_squares([2]) == 5"


@pytest.fixture
def written_tests_score(score: Score_, problem: Problem) -> Callable[..., PartScore]:
    """Return a function that scores the part `written_tests`, given a program and tests."""

    def written_tests_score(
        program: str, tests: str, solution: str = RIGHT, **options: Any
    ) -> PartScore:
        known = problem.model_copy(
            update={"hidden": {**problem.hidden, "canonical_solution": solution}}
        )
        part = {"use": "written_tests", "options": {"agent": "tester", **options}}
        artifacts = {"coder": program, "tester": tests}
        result = score({"parts": {"p": part}}, artifacts, known, roles=roles_of(("coder",)))
        return result.parts[0]

    return written_tests_score


@pytest.mark.parametrize(
    ("program", "tests", "value"),
    [
        (RIGHT, GOOD, 1.0),
        (RIGHT, BLIND, 1.0),
        (RIGHT, f"{GOOD}\n{FALSE}", 2 / 3),
        (RIGHT, FALSE, 0.0),
        (WRONG, GOOD, 1.0),
        (WRONG, BLIND, 0.5),  # right, but misses the mistake
        (WRONG, FALSE, 0.0),  # rejects the wrong program and the right one
        (WRONG, f"{GOOD}\n{FALSE}", 5 / 6),
        ("def sum_of_squares(xs): return (", GOOD, 1.0),  # does not load
    ],
)
def test_a_tester_is_paid_for_right_tests_that_find_mistakes(
    written_tests_score: Callable[..., PartScore], program: str, tests: str, value: float
) -> None:
    assert written_tests_score(program, tests).value == pytest.approx(value)


def test_sharpness_weighs_found_mistakes(written_tests_score: Callable[..., PartScore]) -> None:
    assert written_tests_score(WRONG, BLIND, sharpness=1.0).value == 0.0
    assert written_tests_score(WRONG, f"{GOOD}\n{FALSE}", sharpness=0.0).value == pytest.approx(
        2 / 3
    )


@pytest.mark.parametrize(
    "answer",
    [
        "I would test it with a list.",
        "assert sum_of_squares(__import__('os').listdir()) == 4",
        "assert sum_of_squares([2]) == open('x')",
        "assert other([2]) == 4",
    ],
)
def test_only_literal_tests_of_the_function_count(
    written_tests_score: Callable[..., PartScore], answer: str
) -> None:
    part = written_tests_score(RIGHT, answer)
    assert (part.value, part.applies) == (0.0, True)
    assert "no test of the form 'assert sum_of_squares(1) == 2'" in part.reason


def test_a_solution_may_be_the_body_of_the_prompts_function(
    written_tests_score: Callable[..., PartScore],
) -> None:
    assert (
        written_tests_score(WRONG, GOOD, solution="    return sum(x * x for x in xs)\n").value
        == 1.0
    )


def test_written_tests_do_not_apply_without_a_solution(score: Score_) -> None:
    part = {"use": "written_tests", "options": {"agent": "tester"}}
    artifacts = {"coder": RIGHT, "tester": GOOD}
    result = score({"parts": {"p": part}}, artifacts, roles=roles_of(("coder",)))
    assert not result.parts[0].applies


@pytest.mark.parametrize(
    ("before", "after", "value"),
    [(WRONG, RIGHT, 0.875), (RIGHT, WRONG, 0.125), (RIGHT, RIGHT, 0.5)],
)
def test_repair_is_paid_by_the_change_in_passed_tests(
    score: Score_, before: str, after: str, value: float
) -> None:
    part = {"use": "gain", "options": {"agent": "coder"}}
    artifacts = {"coder": before, "repairer": after}
    result = score({"parts": {"p": part}}, artifacts, roles=roles_of(("repairer",)))
    assert result.parts[0].value == pytest.approx(value)


def test_gain_pays_for_a_coder_that_fails_and_its_own_tests_do_not(
    score: Score_, problem: Problem
) -> None:
    own = {"agent": "coder", "function": "entry_point", "test": "test"}
    parts = {
        "gain": {"use": "gain", "options": {"agent": "coder"}},
        "first": {"use": "part_tests", "options": own},
    }
    artifacts = {"coder": "def sum_of_squares(xs):\n    return None", "repairer": RIGHT}
    result = score({"parts": parts}, artifacts, problem, roles=roles_of(("repairer",)))
    assert [part.value for part in result.parts] == [1.0, 0.0]
