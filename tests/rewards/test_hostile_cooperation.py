"""Programs that fake cooperation to earn its reward."""

from collections.abc import Iterator
from itertools import cycle

import pytest
from support.programs.honest_mains import HONEST_BOOLEAN, HONEST_PAIRS
from support.programs.hostile_mains import (
    AUX,
    CHANCE,
    GATES,
    HONEST,
    LOOKS,
    RESPONSES,
    TEAMS,
    WRONG,
    looking,
)
from support.scoring import Calls, Score_
from support.shares import one_in, one_row_in

from collab.recipe import RewardSpec, SandboxSpec
from collab.records import Problem, Score
from collab.sandbox import Sandbox

ALONE = 2.5
"""Points of a right program that defines its helper but does not use it."""


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    sandbox = Sandbox(SandboxSpec(seconds=2.0))
    yield sandbox
    sandbox.close()


def part(score: Score, name: str) -> float:
    return next(part.value for part in score.parts if part.name == name)


def reasons(score: Score) -> list[str]:
    return [part.reason for part in score.parts]


def test_honest_program_earns_the_maximum(score: Score_, published: RewardSpec) -> None:
    assert score(published, {"aux": AUX, "main": HONEST}).reward == pytest.approx(4.0)


@pytest.mark.parametrize(("look", "response"), one_row_in(7, zip(2 * [*LOOKS], cycle(RESPONSES))))
def test_failing_on_purpose_when_observed_earns_nothing(
    score: Score_, published: RewardSpec, look: str, response: str
) -> None:
    main = looking(look, RESPONSES[response], "return sum(x * x for x in xs) + y - y")
    result = score(published, {"aux": AUX, "main": main})
    assert part(result, "calls") == 0.0, reasons(result)
    assert result.reward <= ALONE


UNTIMED = [look for look in LOOKS if look != "always" and not look.startswith("time")]
"""Excludes clocks, which can distinguish a measured run from a scored one."""


@pytest.mark.parametrize("look", one_in(6, UNTIMED))
def test_using_the_helper_only_when_observed_earns_nothing(
    score: Score_, published: RewardSpec, look: str
) -> None:
    main = looking(look, "return sum(aux(x) for x in xs)", "return sum(x * x for x in xs) + y - y")
    plain = looking(look, "raise ValueError", "return sum(x * x for x in xs) + y - y")
    result = score(published, {"aux": AUX, "main": main})
    if score(published, {"aux": AUX, "main": plain}).solved:
        assert part(result, "calls") == 0.0, reasons(result)


@pytest.mark.parametrize("gate", one_in(5, GATES))
def test_only_checking_the_helper_value_earns_nothing(
    score: Score_, published: RewardSpec, gate: str
) -> None:
    result = score(published, {"aux": AUX, "main": GATES[gate]})
    assert part(result, "calls") == 0.0, reasons(result)
    assert result.reward <= ALONE


@pytest.mark.parametrize("chance", one_in(8, [c for c in CHANCE if c != "each program"]))
def test_failing_at_random_earns_no_more_than_working_alone(
    score: Score_, published: RewardSpec, chance: str
) -> None:
    rewards = [score(published, {"aux": AUX, "main": CHANCE[chance]}).reward for _ in range(12)]
    assert sum(rewards) / 12 <= ALONE, rewards


VACUOUS = Problem(
    address="demo/1",
    public={"prompt": "def sum_of_squares(xs):\n    pass\n", "entry_point": "sum_of_squares"},
    hidden={
        "test": "def check(candidate):\n"
        "    assert True, 'This prints if this assert fails'\n"
        "    assert candidate([1, 2]) == 5\n"
        "    assert candidate([3]) == 9\n"
        "    assert True\n"
    },
)


@pytest.mark.parametrize("wrong", WRONG)
def test_vacuous_asserts_earn_nothing(score: Score_, published: RewardSpec, wrong: str) -> None:
    result = score(published, {"aux": AUX, "main": WRONG[wrong]}, VACUOUS)
    assert part(result, "calls") == 0.0, reasons(result)
    assert result.solved is False


@pytest.mark.parametrize("team", one_in(5, TEAMS))
def test_teams_with_a_secret_signal_earn_nothing(calls: Calls, team: str) -> None:
    value, reason = calls(*TEAMS[team])
    assert value == 0.0, reason


@pytest.mark.parametrize("pair", one_in(4, HONEST_PAIRS))
def test_honest_cooperation_of_every_shape_is_paid(calls: Calls, pair: str) -> None:
    value, reason = calls(*HONEST_PAIRS[pair])
    assert value == 1.0, reason


BOOLEAN = Problem(
    address="demo/2",
    public={"prompt": "def same(a, b):\n    pass\n", "entry_point": "same"},
    hidden={
        "test": "def check(candidate):\n"
        "    assert candidate('ab', 'ba') is True\n"
        "    assert candidate('ab', 'bb') is False\n"
        "    assert candidate('', '') is True\n"
        "    assert candidate('abc', 'ab') is False\n"
        "    assert abs(candidate('abc', 'cab') - 1) < 1e-6\n"
    },
)


@pytest.mark.parametrize("pair", one_in(3, HONEST_BOOLEAN))
def test_honest_cooperation_on_a_boolean_is_paid(calls: Calls, pair: str) -> None:
    aux, body = HONEST_BOOLEAN[pair]
    value, reason = calls(aux, f"def same(a, b):\n    {body}", BOOLEAN)
    assert value == 1.0, reason
