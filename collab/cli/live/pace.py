"""How long a work has taken, how long it may still take, and what memory it holds."""

from __future__ import annotations

import resource
import sys


def so_far(seconds: float) -> str:
    """A time in the largest units that tell it: `45 s`, `12 min`, `3 h 20 min`."""
    minutes = round(seconds / 60)
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def time_left(seconds: float, done: int, left: int) -> list[str]:
    """The time that is left at the pace so far, in words; nothing where it cannot be told."""
    if not done or left <= 0:
        return []
    return [f"about {so_far(seconds * left / done)} left"]


def memory() -> str:
    """The most memory that was held so far: the GPU's where one is in use, else the process's."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        held = sum(torch.cuda.max_memory_allocated(n) for n in range(torch.cuda.device_count()))
    else:
        unit = 1 if sys.platform == "darwin" else 1024
        held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return f"{held / 1e9:.1f} GB"
