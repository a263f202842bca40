"""Problems: suites, their sources, and their addresses."""

from collab.tasks.hub import pin_revision
from collab.tasks.suite import Suite, open_suite, split_address

__all__ = ["Suite", "open_suite", "pin_revision", "split_address"]
