"""Games: a state that a team's joint actions change, and of which each agent observes its part."""

from collab.environments.base import Environment, Observation, Step
from collab.environments.library import BUILT_IN, environment_for

__all__ = ["BUILT_IN", "Environment", "Observation", "Step", "environment_for"]
