"""Outcomes of a coding team."""

from typing import Any

import pytest
from support.static_findings import OutcomeOf

from collab.agents import join_for
from collab.feedback import Outcome
from collab.records import Problem

SECRET = "the_hidden_marker_77"
PROMPT = '''\
import math


def sum_of_squares(xs):
    """Add the squares of xs.

    >>> sum_of_squares([1, 2])
    5
    >>> sum_of_squares([3])
    9
    """
'''
PROBLEM = Problem(
    address="demo/0",
    public={"task_id": "demo/0", "prompt": PROMPT, "entry_point": "sum_of_squares"},
    hidden={
        "test": f"def check(candidate):\n    assert candidate([77]) == 5929, '{SECRET}'\n",
        "canonical_solution": f"    {SECRET} = sum(x * x for x in xs)\n    return {SECRET}\n",
    },
)


@pytest.fixture
def outcome_of() -> OutcomeOf:
    """Return a function that builds an outcome from answers by agent."""

    def outcome_of(
        problem: Problem = PROBLEM, join: str = "python", solved: Any = False, **artifacts: str
    ) -> Outcome:
        joint = join_for(join)(artifacts, problem)
        return Outcome(problem, tuple(artifacts), artifacts, joint, solved, turn=0)

    return outcome_of
