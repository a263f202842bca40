"""Settings of the sandbox in which candidate programs run."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from collab.recipe.base import Spec


class SandboxSpec(Spec):
    """Isolation and limits of one candidate program."""

    removed = {"executor": ("local", ""), "address": ("auto", "")}

    isolation: Literal["sealed", "unsafe"] = "sealed"
    """`sealed` runs every layer or refuses to start. `unsafe` runs none and is marked in every
    record."""
    seconds: float = Field(default=5.0, gt=0, le=600)
    """Wall time for a whole program: loading it and running all of its tests."""
    cpu_seconds: float = Field(default=5.0, gt=0, le=600)
    """Processor time for a whole program."""
    memory_mb: int = Field(default=512, ge=64)
    """Address space of the candidate's process in MiB, beyond what the interpreter itself maps."""
    answer_bytes: int = Field(default=1_000_000, ge=1_000)
    """Largest size of one returned value, encoded."""
    depth: int = Field(default=64, ge=4, le=200)
    """Deepest nesting of one returned value."""
    threads: int = Field(default=16, ge=1)
    """Most threads of the candidate's process."""
    disk_mb: int = Field(default=1, ge=1)
    """Size in MiB of the private, empty folder that a candidate may write to."""
    workers: int = Field(default=0, ge=0)
    """Programs that run at the same time, each in its own jail. A value of 0 means one per
    processor. Verdicts do not depend on it."""
