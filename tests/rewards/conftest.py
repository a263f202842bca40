"""A problem with a useful helper, and scores in a real sandbox."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.programs.reward_parts import PARTS
from support.scoring import Calls, Score_, Values, joined_score
from support.writing import problem_for, shipped_reward

from collab.recipe import RewardSpec
from collab.recipe.team import Roles
from collab.records import Problem, Score
from collab.rewards import Scorer
from collab.sandbox import Sandbox

PROBLEM = Problem(
    address="demo/0",
    public={
        "prompt": 'def sum_of_squares(xs):\n    """Add the squares."""\n',
        "entry_point": "sum_of_squares",
    },
    hidden={
        "test": "def check(candidate):\n"
        "    assert candidate([1, 2]) == 5\n"
        "    assert candidate([3]) == 9\n"
        "    assert candidate([]) == 0\n"
        "    assert candidate([-2, 2]) == 8\n"
    },
)


@pytest.fixture
def problem() -> Problem:
    return PROBLEM


@pytest.fixture
def score(sandbox: Sandbox) -> Score_:
    """Return a function that scores answers by agent under a reward."""

    def score(
        reward: dict[str, Any] | RewardSpec,
        artifacts: dict[str, str],
        problem: Problem = PROBLEM,
        join: str = "python",
        roles: Roles | None = None,
    ) -> Score:
        spec = reward if isinstance(reward, RewardSpec) else RewardSpec.model_validate(reward)
        scorer = Scorer(spec, sandbox, roles)
        agents = roles.contributors if roles else list(artifacts)
        return asyncio.run(joined_score(scorer, problem, artifacts, agents, join))

    return score


@pytest.fixture
def values(score: Score_) -> Values:
    """Return a function that scores a shipped reward's parts, with the total as `reward`."""

    def values(name: str, first: str, second: str) -> dict[str, float]:
        result = score(
            shipped_reward(name), {"a": first, "b": second}, problem=problem_for(name), join="text"
        )
        assert result.maximum == pytest.approx(3.0)
        assert result.solved is None
        assert all(part.reason for part in result.parts)
        return {**{part.name: part.value for part in result.parts}, "reward": result.reward}

    return values


@pytest.fixture
def published() -> RewardSpec:
    """The shipped reward `code`, as published in the paper."""
    return shipped_reward("code")


@pytest.fixture
def calls(score: Score_, published: RewardSpec) -> Calls:
    """Return a function that scores the part `calls` of a helper and a main, with the reason."""

    def calls(aux: str, main: str, problem: Problem = PROBLEM) -> tuple[float, str]:
        parts = score(published, {"aux": aux, "main": main}, problem).parts
        return next((part.value, part.reason) for part in parts if part.name == "calls")

    return calls


@pytest.fixture
def use(here: Path) -> Callable[..., dict[str, Any]]:
    """Return a function that builds a part from `support.programs.reward_parts`."""
    (here / "user_parts.py").write_text(PARTS)

    def use(function: str, **settings: Any) -> dict[str, Any]:
        return {"use": f"user_parts.py:{function}", **settings}

    return use
