"""AT-GRPO: the rewards of a turn, compared among one agent's responses in it."""

from __future__ import annotations

from collab.stats import deviation, mean
from collab.trainers.credit.base import comparing
from collab.trainers.credit.group import Group, Key, Weights
from collab.trainers.credit.normalize import NO_SPREAD


@comparing
def at_grpo(group: Group) -> Weights:
    """AT-GRPO: A_i,t^(g) = (r_i,t^(g) - mean over g' of r_i,t^(g')) / their standard deviation.

    Agent- and turn-wise grouped GRPO, arXiv 2510.11062. The rule compares the rewards of the turn
    itself, among responses of one task, agent and turn. r_i,t = team_weight x r_t + the agent's
    `local_parts`. The rule is meant for `turn_structure: greedy`, in which the compared responses
    share one state and only the best is continued: n G H responses per task. A turn gets no credit
    for later turns, and later states are better than the team would usually reach. Every turn
    therefore needs a reward that measures the team's progress. In chains, the states of later turns
    differ. One turn of one agent is GRPO (arXiv 2402.03300).
    """
    weights: dict[Key, float] = {}
    for nodes in group.baselines_over:
        for agent in group.agents:
            rewards = [group.rewards[node][agent] for node in nodes]
            average, spread = mean(rewards), deviation(rewards)
            for (episode, turn), reward in zip(nodes, rewards, strict=True):
                weights[episode, turn, agent] = (
                    (reward - average) / spread if spread > NO_SPREAD else 0.0
                )
    return weights
