"""A problem of a suite."""

from __future__ import annotations

from typing import Any

from collab.records.base import Record


class Problem(Record):
    """One problem of a suite. Agents and feedback see `public` only; rewards see both."""

    address: str
    public: dict[str, Any]
    hidden: dict[str, Any] = {}
