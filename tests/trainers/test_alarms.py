"""Each alarm is raised once, in plain words."""

from collections.abc import Mapping

import pytest
from support.trainer_recipes import changed

from collab.recipe import load_recipe, read_task
from collab.recipe.reward import RewardSpec
from collab.trainers.training.alarms import WINDOW, Alarms
from collab.trainers.training.skipping import StepHistory

GOOD = {
    "return/mean": 1.0, "return/std": 0.5, "groups/dead": 0.2, "tests": 0.3, "solved": 0.2,
    "reward/turn_1": 1.0, "episodes/flagged": 0.0, "points/syntax": 0.5, "points/calls": 0.5,
    "agent/a/entropy": 1.0, "agent/a/empty": 0.0, "agent/a/truncated": 0.1, "agent/a/length": 40.0,
    "agent/b/entropy": 1.0, "agent/b/empty": 0.0, "agent/b/truncated": 0.1, "agent/b/length": 40.0,
}  # fmt: skip

TROUBLE = [
    ({"credit/a/influence": 0.001, "credit/b/own": 0.99}, "`a` has no influence"),
    ({"credit/a/influence": 0.1, "credit/b/own": 0.95}, "`b` alone decides 95% of the reward"),
    ({"groups/dead": 0.9}, "of the groups are dead"),
    ({"agent/b/empty": 0.9}, "the parser found nothing in most answers of b"),
    ({"agent/a/entropy": 0.05}, "the entropy of a fell from 1.00 to 0.05"),
    ({"agent/a/truncated": 0.8}, "of the responses of a are truncated"),
    ({"return/mean": 2.0}, "while the share of hidden tests passed did not"),
    ({"reward/turn_2": 0.5}, "the second turn earns less than the first"),
    ({"points/syntax": 0.1}, "one agent's syntax error"),
    ({"points/calls": 0.0, "solved": 0.9}, "without calling the helper"),
    ({"episodes/flagged": 0.2}, "reach a limit of the sandbox or attack it"),
]


def test_a_good_run_raises_no_alarm() -> None:
    alarms = Alarms(read_task("coopcode")[0].reward)
    assert [alarms.read(GOOD) for _ in range(5 * WINDOW)] == [()] * (5 * WINDOW)


@pytest.mark.parametrize(("trouble", "message"), TROUBLE)
def test_each_problem_raises_one_alarm(trouble: dict[str, float], message: str) -> None:
    alarms = Alarms(read_task("coopcode")[0].reward)
    for _ in range(2 * WINDOW):
        alarms.read(GOOD)
    warnings = [text for _ in range(2 * WINDOW) for text in alarms.read({**GOOD, **trouble})]
    assert len([text for text in warnings if message in text]) == 1
    assert len(warnings) == 1


def test_helper_that_stops_working_raises_an_alarm() -> None:
    alarms = Alarms(read_task("humaneval-pro")[0].reward)
    row = {"points/helper_tests": 0.8, "solved": 0.2}
    warnings = [alarms.read(row) for _ in range(2 * WINDOW)]
    warnings += [alarms.read({**row, "points/helper_tests": 0.2}) for _ in range(2 * WINDOW)]
    assert [text[:52] for texts in warnings for text in texts] == [
        "on average 38% of the agent's own tests pass, less t"
    ]


@pytest.mark.parametrize(
    ("setting", "value", "count"),
    [
        ("team.when_solved", "absorb", 1),
        ("team.when_solved", "stop", 0),  # later turns have the unsolved episodes only
        ("trainer.turn_structure", "greedy", 0),  # the first turn has the best answer only
        ("task", {"kind": "environment", "environment": "blocks2d"}, 0),  # pays what was added
    ],
)
def test_turns_are_compared_if_their_rewards_are_of_one_kind(
    setting: str, value: object, count: int
) -> None:
    recipe = changed(load_recipe("coding", defaults={"trainer": "magrpo"}), setting, value)
    history = StepHistory(recipe, total_steps=3 * WINDOW)
    row = {**GOOD, "reward/turn_2": 0.5, "tokens": 1.0}
    warnings = [text for _ in range(2 * WINDOW) for text in history.add(row)]
    assert len([text for text in warnings if "the second turn earns less" in text]) == count


def test_recurring_problem_raises_the_alarm_again() -> None:
    alarms = Alarms()
    alarms_raised = 0
    for value in (0.2, 0.9, 0.2, 0.9):
        for _ in range(2 * WINDOW):
            alarms_raised += len(alarms.read({**GOOD, "groups/dead": value}))
    assert alarms_raised == 2


def alarms_of(part: Mapping[str, object], metric: str, values: tuple[float, ...]) -> list[str]:
    """Warnings for a custom part; each value lasts twenty steps."""
    reward = RewardSpec.model_validate({"parts": {"clear": {"use": "length", **part}}})
    alarms = Alarms(reward)
    rows = [{metric: value, "solved": 0.0} for value in values for _ in range(2 * WINDOW)]
    return [text for row in rows for text in alarms.read(row)]


SAYS = {"says": "clarity went from {first:.0%} to {now:.0%}"}


@pytest.mark.parametrize(
    ("alarm", "values", "message"),
    [
        ({"below": 0.3}, (0.5, 0.2), "clarity went from 50% to 20%"),
        ({"above": 0.6}, (0.5, 0.7), "clarity went from 50% to 70%"),
        ({"below_best": 0.5}, (0.5, 0.9, 0.4), "clarity went from 50% to 40%"),
    ],
)
def test_part_of_a_text_task_may_have_an_alarm(
    alarm: Mapping[str, object], values: tuple[float, ...], message: str
) -> None:
    for weight, metric in ((0.0, "value/clear"), (1.0, "points/clear")):
        part = {"weight": weight, "alarm": {**alarm, **SAYS}}
        warnings = alarms_of(part, metric, values)
        assert len(warnings) == 1
        assert warnings[0].startswith("clarity went from 50%")
        assert alarms_of(part, metric, values[:1]) == []


def test_alarm_compares_the_value_before_weighting() -> None:
    part = {"weight": 4.0, "alarm": {"below": 0.3, **SAYS}}
    assert alarms_of(part, "points/clear", (2.0,)) == []
    assert len(alarms_of(part, "points/clear", (2.0, 0.8))) == 1


def test_an_alarm_may_wait_until_tasks_are_solved() -> None:
    part = {"alarm": {"below": 0.9, "while_solved": 0.5, "says": "solved, and unclear"}}
    assert alarms_of(part, "points/clear", (0.5,)) == []


def test_value_that_lags_behind_the_return_raises_an_alarm() -> None:
    alarm = {"behind_return": True, "says": "more points, and no clearer"}
    parts = {"clear": {"use": "length", "alarm": alarm}}
    alarms = Alarms(RewardSpec.model_validate({"parts": parts}))
    rows = [{"return/mean": r, "return/std": 0.5, "points/clear": 0.5} for r in (1.0, 3.0)]
    warnings = [text for row in rows for _ in range(2 * WINDOW) for text in alarms.read(row)]
    assert warnings == ["more points, and no clearer"]


@pytest.mark.parametrize(
    ("alarm", "message"),
    [
        ({"says": "x"}, "exactly one of 'above', 'below', 'below_best' and 'behind_return'"),
        ({"above": 0.5, "below": 0.1, "says": "x"}, "got above and below"),
        ({"below": 0.5, "says": "{later}"}, "it may name {first}, {now} and {gain}"),
        ({"below": 0.5, "says": "x {now:>2100000000}"}, "'{now:>2100000000}' cannot be formatted"),
        ({"below": 0.5, "says": "{now.__class__.__mro__}"}, "cannot be formatted"),
        ({"below": 0.5, "says": "{now!r}"}, "cannot be formatted"),
        ({"below": 0.5, "says": "{now[0]}"}, "cannot be formatted"),
        ({"below": 0.5, "says": "{now:{first}}"}, "cannot be formatted"),
        ({"below": 0.5, "says": "{now:.999f}"}, "cannot be formatted"),
        ({"below": 0.5, "says": "{}"}, "cannot be formatted"),
        ({"below": 0.5, "says": "{now"}, "cannot be formatted"),
        ({"below": 0.5, "says": "x" * 501}, "at most 500 characters"),
    ],
)
def test_invalid_alarm_is_refused(alarm: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match="alarm") as caught:
        RewardSpec.model_validate({"parts": {"a": {"use": "length", "alarm": alarm}}})
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("says", "text"),
    [
        ("{{x}} {now:.0%}", "{x} 25%"),
        ("{{{now}}}", "{0.25}"),
        ("{gain:+.2f} {now:5.1f}", "+2.00   0.2"),
    ],
)
def test_alarm_text_supports_formats_and_braces(says: str, text: str) -> None:
    alarm = (
        RewardSpec.model_validate(
            {"parts": {"a": {"use": "length", "alarm": {"below": 0.5, "says": says}}}}
        )
        .parts["a"]
        .alarm
    )
    assert alarm is not None
    assert alarm.says.format(first=0.5, now=0.25, gain=2.0) == text
