"""What did not work, as data."""

from __future__ import annotations

from collab.errors import CollabError
from collab.records.base import Record


class Failure(Record):
    """Something of ours, or of a service, that did not work; never a score."""

    boundary: str
    """The boundary that was crossed: model, agent, sandbox, reward, environment, feedback, task,
    budget."""
    type: str
    message: str
    traceback: str | None = None
    """Where a foreign exception, such as one of a user's function, was the reason."""


def failure_of(error: CollabError) -> Failure:
    """The record of an error that ended something within an episode."""
    return Failure(
        boundary=error.boundary,
        type=type(error).__name__,
        message=str(error),
        traceback=error.trace,
    )
