"""Running untrusted programs against trusted tests, behind every layer that Linux offers."""

from __future__ import annotations

from collab.judge.judge import Judge
from collab.judge.verdict import Check, Treatment, Trial, Values, Verdict

__all__ = ["Check", "Judge", "Treatment", "Trial", "Values", "Verdict"]
