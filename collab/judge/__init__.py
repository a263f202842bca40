"""Running untrusted programs against trusted tests, behind every layer that Linux offers."""

from __future__ import annotations

from collab.judge.judge import Judge
from collab.judge.verdict import Check, Trial, Verdict

__all__ = ["Check", "Judge", "Trial", "Verdict"]
