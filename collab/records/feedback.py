"""What agents are told after a turn."""

from __future__ import annotations

from typing import Literal

from collab.records.action import Usage
from collab.records.base import Record


class Finding(Record):
    """One remark on an artefact, in the shape that every feedback tool shares."""

    source: str
    code: str
    severity: Literal["error", "warning", "info"]
    message: str
    line: int | None = None
    """1-based, in the agent's own artefact, or in `file`."""
    file: str | None = None
    """Of a program of several files: the one that the line is in."""
    column: int | None = None
    fix: str | None = None
    url: str | None = None


class Feedback(Record):
    """What one source tells one agent after a turn."""

    source: str
    text: str
    findings: tuple[Finding, ...] = ()
    usage: Usage | None = None
    """What a model's advice took, stated once: with the first agent that it advises."""
