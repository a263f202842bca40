"""Feedback: remarks to each agent between turns."""

from collab.feedback.plain import Outcome
from collab.feedback.sources import Source, check_sources, gather, open_sources

__all__ = ["Outcome", "Source", "check_sources", "gather", "open_sources"]
