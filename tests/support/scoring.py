"""Artifacts joined and scored, as an episode does it."""

from collections.abc import Mapping, Sequence

from collab.agents import join_for, make_joint
from collab.records import Problem, Score
from collab.rewards import Scorer


async def joined_score(
    scorer: Scorer,
    problem: Problem,
    artifacts: Mapping[str, str],
    agents: Sequence[str],
    join: str = "python",
) -> Score:
    handed = {agent: artifacts[agent] for agent in agents if agent in artifacts}
    joint = make_joint(join_for(join), handed, problem)
    return await scorer.score(problem, joint, artifacts, agents)
