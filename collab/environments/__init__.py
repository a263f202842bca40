"""Games: the team's joint actions change a state, and each agent observes part of it."""

from collab.environments.base import Environment, Observation, Step
from collab.environments.library import BUILT_IN, environment_for

__all__ = ["BUILT_IN", "Environment", "Observation", "Step", "environment_for"]
