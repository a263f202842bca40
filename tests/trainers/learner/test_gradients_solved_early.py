"""Where tasks are solved early, the gradient is that of the objective with absorbing states."""

from __future__ import annotations

from typing import Any

import pytest
from support.rooms.gradients import (
    check,
)
from support.shares import one_in

from collab.trainers.learner.policy import Policies

EARLY: dict[str, dict[str, Any]] = {
    "paper": {},
    "marloo": {"algorithm": "marloo"},
    "maremax": {"algorithm": "maremax"},
    "mareinforce": {"algorithm": "mareinforce"},
    "discount": {"discount": 0.5},
    "normalise": {"normalise": "group"},
    "local_parts": {"local_parts": {"a": ["own_a"]}, "team_weight": 0.5},
}
SOLVED = {"some": (1, 2), "all_but_one": (0, 1, 2, 4), "all": range(5)}


@pytest.mark.parametrize("policies", EARLY.values(), ids=EARLY, indirect=True)
@pytest.mark.parametrize("solved", SOLVED.values(), ids=SOLVED)
@pytest.mark.parametrize("when_solved", one_in(2, ["absorb", "stop"]))
def test_gradients_where_tasks_are_solved_early(
    policies: Policies, request: pytest.FixtureRequest, solved: Any, when_solved: str
) -> None:
    check(policies, request, 1, n_turns=3, solved=solved, when_solved=when_solved)
