"""Joint rewards: named parts with weights, scored in order."""

from collab.rewards.context import Part, RewardContext
from collab.rewards.other_libraries import from_comlrl, from_trl
from collab.rewards.scorer import Scorer

__all__ = ["Part", "RewardContext", "Scorer", "from_comlrl", "from_trl"]
