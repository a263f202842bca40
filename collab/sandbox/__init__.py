"""Runs untrusted programs against trusted tests, behind every layer that Linux offers."""

from __future__ import annotations

from collab.sandbox.sandbox import Sandbox, describe_concurrency
from collab.sandbox.verdict import Check, Treatment, Trial, Values, Verdict

__all__ = ["Check", "Sandbox", "Treatment", "Trial", "Values", "Verdict", "describe_concurrency"]
