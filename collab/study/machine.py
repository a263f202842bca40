"""How many cells the machine bears at once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from collab.trainers import Plan

SPARE = 0.9
"""Of the memory that is free: what the cells may take."""
MEMINFO = Path("/proc/meminfo")


def jobs_for(plans: Sequence[Plan], cores: int, memory: int | None) -> int:
    """Cells at once: one a core at most, and as many as their planned memory allows; 1 at least.

    `memory` is what is free, in bytes; None where nobody knows.
    """
    most = max(plan.total for plan in plans)
    by_memory = len(plans) if memory is None or not most else int(SPARE * memory / most)
    return max(1, min(len(plans), cores, by_memory))


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def free_memory() -> int | None:
    """Bytes: the GPU's where there is one, else the machine's; None where it does not say."""
    import torch

    if torch.cuda.is_available():
        return int(torch.cuda.mem_get_info()[0])
    try:
        lines = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None
