"""Reward parts for any team."""

from collections.abc import Callable
from typing import Any

import pytest

from collab.errors import RewardError
from collab.records import Problem, Score

Score_ = Callable[..., Score]

PROBLEM = Problem(address="demo/0", public={"question": "?"}, hidden={"answer": "Forty  Two"})


def value(score: Score_, part: dict[str, Any], **artifacts: str) -> float:
    return score({"parts": {"it": part}}, artifacts, problem=PROBLEM, join="text").reward


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a b", 1.0), ("a b c d", 1.0), ("a", 0.75), ("", 0.5), ("a b c d e", 0.75), ("a " * 9, 0.0)],
)
def test_length_falls_linearly_beyond_bounds(score: Score_, text: str, expected: float) -> None:
    part = {"use": "length", "options": {"minimum": 2, "maximum": 4, "margin": 3}}
    assert value(score, part, writer=text) == expected


def test_length_of_one_agent_in_characters(score: Score_) -> None:
    part = {"use": "length", "options": {"agent": "b", "unit": "characters", "maximum": 3}}
    assert value(score, part, a="a long text", b="abc") == 1.0
    assert value(score, part, a="", b="abcd") == 0.0


def test_contains_whole_words_in_any_case(score: Score_) -> None:
    part = {"use": "contains", "options": {"phrases": ["so", "in short", "c++"]}}
    assert value(score, part, a="Also sober", b="nothing") == 0.0
    assert value(score, part, a="So, it is", b="IN SHORT: C++.") == 1.0


def test_equals_a_hidden_field(score: Score_) -> None:
    part = {"use": "equals", "options": {"field": "answer", "agent": "b"}}
    assert value(score, part, a="", b=" forty two\n") == 1.0
    assert value(score, part, a="forty two", b="43") == 0.0


TABLE = {"cooperate": {"cooperate": 3, "defect": 0}, "defect": {"cooperate": 5, "defect": 1}}
GAME = {"use": "utility", "options": {"table": TABLE, "maximum": 5.0}}


def test_utility_is_the_payoff_of_the_joint_move(score: Score_) -> None:
    assert value(score, GAME, row="Defect", column="cooperate ") == 1.0
    assert value(score, GAME, row="cooperate", column="cooperate") == pytest.approx(0.6)
    assert value(score, GAME, row="cooperate", column="defect") == 0.0


def test_a_move_outside_the_game_earns_nothing(score: Score_) -> None:
    result = score(
        {"parts": {"it": GAME}}, {"row": "defect", "column": "sulk"}, problem=PROBLEM, join="text"
    )
    assert result.reward == 0.0
    assert "column plays 'sulk', which is not one of: cooperate, defect" in result.parts[0].reason


@pytest.mark.parametrize(
    "artifacts", [{"row": "defect"}, {"row": "defect", "column": "defect", "third": "defect"}]
)
def test_payoff_table_must_fit_the_team(score: Score_, artifacts: dict[str, str]) -> None:
    with pytest.raises(RewardError, match="the table of 'utility'"):
        value(score, GAME, **artifacts)


def test_a_payoff_above_the_maximum_is_an_error(score: Score_) -> None:
    part = {"use": "utility", "options": {"table": {"a": 2}}}
    with pytest.raises(RewardError, match=r"returned 2\.0"):
        value(score, part, player="a")
