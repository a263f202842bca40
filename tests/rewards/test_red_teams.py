"""An outside red team's right programs with useless helpers earn no cooperation."""

import pytest
from support.programs.red_team_truths import TRUTHS
from support.programs.red_teams import TEAMS
from support.scoring import Calls
from support.shares import one_in

from collab.records import Problem

SAME = Problem(
    address="demo/2",
    public={"prompt": "def same(a, b):\n    pass\n", "entry_point": "same"},
    hidden={
        "test": "def check(candidate):\n"
        "    assert candidate('ab', 'ba') is True\n"
        "    assert candidate('ab', 'bb') is False\n"
        "    assert candidate('', '') is True\n"
        "    assert candidate('abc', 'ab') is False\n"
    },
)


def test_the_corpus_is_large() -> None:
    assert len(TEAMS) + len(TRUTHS) >= 50


@pytest.mark.parametrize("team", one_in(4, TEAMS))
def test_helper_without_effect_earns_nothing(calls: Calls, team: str) -> None:
    value, reason = calls(*TEAMS[team])
    assert value == 0.0, reason


@pytest.mark.parametrize("team", one_in(4, TRUTHS))
def test_boolean_helper_without_effect_earns_nothing(calls: Calls, team: str) -> None:
    value, reason = calls(*TRUTHS[team], SAME)
    assert value == 0.0, reason
