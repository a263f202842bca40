"""What the environment tells each agent between turns."""

from collab.feedback.outcome import Outcome
from collab.feedback.sources import Source, gather, open_sources

__all__ = ["Outcome", "Source", "gather", "open_sources"]
