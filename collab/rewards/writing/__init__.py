"""Rewards for texts that belong together, e.g. a short and a long summary, and for names."""

from collab.lazy import BuiltIn
from collab.rewards.family import Family

FAMILY = Family(
    BuiltIn(
        "collab.rewards.writing",
        {
            "lengths": "pairs:lengths",
            "length_ratio": "pairs:length_ratio",
            "vocabulary": "pairs:vocabulary",
            "transitions": "pairs:transitions",
            "shared_words": "pairs:shared_words",
            "faithfulness": "pairs:faithfulness",
            "names": "sentences:names",
            "sentences": "sentences:sentences",
            "mentions": "sentences:mentions",
            "in_common": "sentences:in_common",
        },
    )
)
