"""With early solves, the gradient matches the objective with absorbing states."""

from collections.abc import Collection
from itertools import cycle
from typing import Any

import pytest
from support.gradients import check
from support.shares import one_row_in

from collab.trainers.learner.policy import Policies

EARLY: dict[str, dict[str, Any]] = {
    "paper": {},
    "marloo": {"algorithm": "marloo"},
    "maremax": {"algorithm": "maremax"},
    "mareinforce": {"algorithm": "mareinforce"},
    "discount": {"discount": 0.5},
    "normalize": {"normalize": "group"},
    "local_parts": {"local_parts": {"a": ["own_a"]}, "team_weight": 0.5},
}
SOLVED: dict[str, Collection[int]] = {"some": (1, 2), "all_but_one": (0, 1, 2, 4), "all": range(5)}


@pytest.mark.parametrize(
    ("when_solved", "solved", "policies"),
    one_row_in(5, zip(cycle(["absorb", "stop"]), cycle(SOLVED), 2 * [*EARLY.values()])),
    indirect=["policies"],
)
def test_gradient_matches_the_objective_if_tasks_are_solved_early(
    policies: Policies, request: pytest.FixtureRequest, solved: str, when_solved: str
) -> None:
    check(policies, request, 1, n_turns=3, solved=SOLVED[solved], when_solved=when_solved)
