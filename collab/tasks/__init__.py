"""Problems: suites, their sources, and their addresses."""

from collab.tasks.hub import pinned
from collab.tasks.suite import Suite, open_suite, split_address

__all__ = ["Suite", "open_suite", "pinned", "split_address"]
