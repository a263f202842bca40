"""Server-sent events."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

PING = ": still at work\n\n"
"""A comment, which clients pass over and proxies count as life."""

DONE = "data: [DONE]\n\n"


def event(data: Mapping[str, Any], kind: str = "") -> str:
    """One event; within it every line break is escaped, those of Unicode too."""
    name = f"event: {kind}\n" if kind else ""
    return f"{name}data: {json.dumps(data, separators=(',', ':'))}\n\n"
