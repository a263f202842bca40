"""What a family of rewards brings: its parts, and what only it knows of an answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from collab.recipe.reward import AlarmSpec
from collab.records import Score
from collab.rewards.context import RewardContext, TrialOf
from collab.rewards.parts import PartFunction

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
