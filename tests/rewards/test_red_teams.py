"""An outside red team's right programs with useless helpers earn no cooperation."""

from collections.abc import Callable

import pytest
from support.programs.red_team_truths import TRUTHS
from support.programs.red_teams import TEAMS
from support.shares import one_in

from collab.recipe import RewardSpec
from collab.recipe.documents import read_mapping
from collab.recipe.library import shipped
from collab.records import Problem, Score

REWARD = RewardSpec.model_validate(read_mapping(shipped() / "tasks" / "rewards" / "code.yaml"))
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


def calls(score: Score) -> tuple[float, str]:
    return next((part.value, part.reason) for part in score.parts if part.name == "calls")


def test_the_corpus_is_large() -> None:
    assert len(TEAMS) + len(TRUTHS) >= 50


@pytest.mark.parametrize("team", one_in(4, TEAMS))
def test_helper_without_effect_earns_nothing(score: Callable[..., Score], team: str) -> None:
    aux, main = TEAMS[team]
    value, reason = calls(score(REWARD, {"aux": aux, "main": main}))
    assert value == 0.0, reason


@pytest.mark.parametrize("team", one_in(4, TRUTHS))
def test_boolean_helper_without_effect_earns_nothing(
    score: Callable[..., Score], team: str
) -> None:
    aux, main = TRUTHS[team]
    value, reason = calls(score(REWARD, {"aux": aux, "main": main}, SAME))
    assert value == 0.0, reason
