"""Joins and scores answers, like an episode."""

from collections.abc import Callable, Mapping, Sequence

from collab.agents import join_for
from collab.recipe import RewardSpec, TaskSpec
from collab.records import Problem, Score
from collab.rewards import Scorer

# The fixtures of tests/rewards that score a joint answer.
Score_ = Callable[..., Score]
Values = Callable[..., dict[str, float]]
Calls = Callable[..., tuple[float, str]]


def reward_of(task: TaskSpec | None) -> RewardSpec:
    """The reward of a task, which must have one."""
    assert task is not None
    assert task.reward is not None
    return task.reward


async def joined_score(
    scorer: Scorer,
    problem: Problem,
    artifacts: Mapping[str, str],
    agents: Sequence[str],
    join: str = "python",
) -> Score:
    handed = {agent: artifacts[agent] for agent in agents if agent in artifacts}
    joint = join_for(join)(handed, problem)
    return await scorer.score(problem, joint, artifacts, agents)
