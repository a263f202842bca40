"""What the levels of a reward are worth: the parts of a level are reported together."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

from collab.records import PartScore, Score
from collab.stats import mean


def level_shares(score: Score) -> dict[str, float]:
    """By level, its points of their largest; levels that do not apply to the team are left out."""
    levels: dict[str, list[PartScore]] = {}
    for part in score.parts:
        if part.applies:
            levels.setdefault(part.level, []).append(part)
    shares = {name: _share(parts) for name, parts in levels.items()}
    return {name: share for name, share in shares.items() if share is not None}


def _share(parts: Sequence[PartScore]) -> float | None:
    """The points of their largest; the mean value of parts without points; None of penalties."""
    largest = fsum(part.weight for part in parts if part.weight > 0)
    if largest:
        return fsum(part.points for part in parts) / largest
    return None if any(part.weight for part in parts) else mean([part.value for part in parts])
