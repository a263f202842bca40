"""The limits of one trial, as the supervisor receives them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits of one trial."""

    seconds: float
    """Wall time for loading the program and running all of its tests."""
    cpu_seconds: float
    memory_mb: int
    """Address space beyond what the interpreter itself maps."""
    answer_bytes: int
    depth: int
    threads: int
    disk_mb: int

    @property
    def argument_depth(self) -> int:
        """Depth limit of arguments. Arguments are in a list, and one of them may be an answer of
        the largest depth."""
        return 2 * self.depth + 1


NO_LIMITS = Limits(
    seconds=0, cpu_seconds=0, memory_mb=0, answer_bytes=0, depth=0, threads=0, disk_mb=1
)
"""Limits of a process that only forks others."""
