"""The runtime: teams run episodes, reported as a stream of events."""

from collab.runtime.events import Event
from collab.runtime.session import Session
from collab.runtime.summary import Rollout
from collab.runtime.team import Team, load

__all__ = ["Event", "Rollout", "Session", "Team", "load"]
