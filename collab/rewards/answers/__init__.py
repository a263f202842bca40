"""Rewards for answers that are right or wrong, e.g. in mathematics."""

from collab.rewards.answers.exact import exact_answer
from collab.rewards.answers.published import environment_score, score_answer
from collab.rewards.family import Family

FAMILY = Family(
    {
        "exact_answer": exact_answer,
        "score_answer": score_answer,
        "environment_score": environment_score,
    }
)
