"""Feedback: remarks to each agent between turns."""

from collab.feedback.plain import Outcome, Source
from collab.feedback.sources import check_sources, gather, open_sources

__all__ = ["Outcome", "Source", "check_sources", "gather", "open_sources"]
