"""Rewards for answers that are right or wrong, e.g. in mathematics."""

from collab.lazy import BuiltIn
from collab.rewards.family import Family

FAMILY = Family(
    BuiltIn(
        "collab.rewards.answers",
        {
            "exact_answer": "exact:exact_answer",
            "score_answer": "published:score_answer",
            "environment_score": "published:environment_score",
        },
    )
)
