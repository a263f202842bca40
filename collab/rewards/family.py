"""A family of rewards: its parts, measures and display."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from typing import TYPE_CHECKING, Any

from collab.recipe.reward import AlarmSpec
from collab.records import PartScore, Score
from collab.rewards.context import RewardContext, TrialOf
from collab.rewards.parts import PartFunction
from collab.stats import mean

if TYPE_CHECKING:
    from collab.sandbox import Sandbox


Findings = Mapping[str, Any]
"""Fields of a `Score` that no part of the reward gives."""

Examine = Callable[
    [RewardContext, Mapping[str, PartFunction], "Sandbox | None"], Awaitable[Findings]
]


@dataclass(frozen=True)
class Measure:
    """A number from 0 to 1 that scores show beside the parts of their reward."""

    read: Callable[[Score], float | None]
    """The number of a score; None where it has none."""
    best_of: str = ""
    """An evaluation tells the best of k tries as `NAME@k`; "" for nothing."""
    metric: str = ""
    """The name of its mean over a step of training; "" for none."""
    title: str = ""
    """Of its curve."""
    column: str = ""
    """The head of its column in lists of episodes; "" for none."""
    cell: Callable[[Score], str] = lambda _: ""
    """What stands in that column."""
    told: Callable[[Score], str] = lambda _: ""
    """The same in a sentence; "" where there is nothing to tell."""
    alarm: AlarmSpec | None = None


@dataclass(frozen=True)
class Family:
    parts: Mapping[str, Callable[..., Any]]
    """By the name that a recipe uses."""
    alarms: Mapping[str, AlarmSpec] = field(default_factory=dict)
    """By part: when training warns, unless the recipe says otherwise."""
    measures: tuple[Measure, ...] = ()
    trial_of: TrialOf | None = None
    """How the sandbox is asked about an answer."""
    examine: Examine | None = None
    """What a score holds beside its parts; called when all of them are scored."""
    title_of: Callable[[Mapping[str, Any]], str | None] = lambda _: None
    """The line of a problem's public fields that tells it from others, where there is one."""
    language_of: Callable[[Score], str | None] = lambda _: None
    """What the joint artefact of a score is written in, where the score tells."""


def level_shares(score: Score) -> dict[str, float]:
    """Map each level to its share of the largest points; levels that do not apply are left out."""
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
