"""Alarms are raised once, in plain words."""

from __future__ import annotations

import pytest

from collab.trainers.training.alarms import WINDOW, Alarms

GOOD = {
    "return/mean": 1.0,
    "return/std": 0.5,
    "groups/dead": 0.2,
    "tests": 0.3,
    "solved": 0.2,
    "reward/turn_1": 1.0,
    "hack_suspects": 0.0,
    "part/syntax": 0.5,
    "part/calls": 0.5,
    "agent/a/entropy": 1.0,
    "agent/a/empty": 0.0,
    "agent/a/truncated": 0.1,
    "agent/a/length": 40.0,
    "agent/b/entropy": 1.0,
    "agent/b/empty": 0.0,
    "agent/b/truncated": 0.1,
    "agent/b/length": 40.0,
}

TROUBLE = [
    ({"credit/a/influence": 0.001, "credit/b/own": 0.99}, "`a` has no influence"),
    ({"credit/a/influence": 0.1, "credit/b/own": 0.95}, "`b` decides 95% of the reward"),
    ({"groups/dead": 0.9}, "every return is equal"),
    ({"agent/b/empty": 0.9}, "most answers of b hold nothing"),
    ({"agent/a/entropy": 0.05}, "the entropy of a fell from 1.00 to 0.05"),
    ({"agent/a/truncated": 0.8}, "of the responses of a are cut off"),
    ({"return/mean": 2.0}, "while the share of hidden tests passed did not"),
    ({"reward/turn_2": 0.5}, "the second turn earns less than the first"),
    ({"part/syntax": 0.1}, "one agent's syntax error"),
    ({"part/calls": 0.0, "solved": 0.9}, "without the helper being called"),
    ({"hack_suspects": 0.2}, "signs of an attack on their sandbox"),
]


def test_a_good_run_raises_no_alarm() -> None:
    alarms = Alarms()
    assert [alarms.read(GOOD) for _ in range(5 * WINDOW)] == [()] * (5 * WINDOW)


@pytest.mark.parametrize(("trouble", "told"), TROUBLE)
def test_trouble_is_told_once(trouble: dict[str, float], told: str) -> None:
    alarms = Alarms()
    for _ in range(2 * WINDOW):
        alarms.read(GOOD)
    warnings = [text for _ in range(2 * WINDOW) for text in alarms.read({**GOOD, **trouble})]
    assert len([text for text in warnings if told in text]) == 1
    assert len(warnings) == 1


def test_trouble_that_comes_back_is_told_again() -> None:
    alarms = Alarms()
    told = 0
    for value in (0.2, 0.9, 0.2, 0.9):
        for _ in range(2 * WINDOW):
            told += len(alarms.read({**GOOD, "groups/dead": value}))
    assert told == 2
