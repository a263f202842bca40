"""A call of a tool, as it comes in pieces."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class StreamedCall:
    """The part of a call that has come so far."""

    id: str = ""
    name: str = ""
    arguments: str = ""
    """JSON, whole at the end of the stream."""
