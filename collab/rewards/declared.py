"""What a reward says of itself: what is shown of it beside its points, and when to warn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from collab.recipe.reward import AlarmSpec, PartSpec, RewardSpec
from collab.records import Score
from collab.rewards.levels import level_shares
from collab.rewards.library import FAMILIES, MEASURES
from collab.runs.metric_names import PART, VALUE, named


@dataclass(frozen=True)
class Watched:
    """A metric of training that an alarm is about."""

    metric: str
    scale: float
    """What the metric is for a value of 1."""
    alarm: AlarmSpec


def watched(reward: RewardSpec | None) -> Iterator[Watched]:
    """What is watched in training by this reward; without one, what is watched in all of them."""
    for measure in MEASURES:
        if measure.alarm and measure.metric:
            yield Watched(measure.metric, 1.0, measure.alarm)
    for name, part in reward.parts.items() if reward else ():
        if alarm := _alarm_of(part):
            pattern = PART if part.weight else VALUE
            yield Watched(named(pattern, name), part.weight or 1.0, alarm)


def best_of(reward: RewardSpec | None) -> dict[str, Callable[[Score], float | None]]:
    """By name: what the best of several tries is told of, as a number of a score."""
    found = {measure.best_of: measure.read for measure in MEASURES if measure.best_of}
    for name, part in reward.parts.items() if reward else ():
        if part.best_of:
            found[part.best_of] = _share_of(part.level or name)
    return found


@dataclass(frozen=True)
class Shown:
    """A column in lists of episodes."""

    head: str
    cell: Callable[[Score], str]
    value: Callable[[Score], float | None]
    """What the column is sorted by."""


def shown(reward: RewardSpec | None) -> list[Shown]:
    """The columns of scores by this reward; without one, those of all rewards."""
    found = [Shown(m.column, m.cell, m.read) for m in MEASURES if m.column]
    for name, part in reward.parts.items() if reward else ():
        if part.shown_as:
            value = _value_of(name)
            found.append(Shown(part.shown_as, partial(_share_cell, value), value))
    return found


def told(score: Score) -> list[str]:
    """In words: what a score shows beside its reward."""
    return [text for measure in MEASURES if (text := measure.told(score))]


def language_of(score: Score) -> str | None:
    """What the joint artefact is written in, e.g. `python`; None for plain text."""
    found = (family.language_of(score) for family in FAMILIES)
    return next((language for language in found if language), None)


def title_of(public: Mapping[str, Any]) -> str | None:
    """The line of a problem's public fields that tells it from others, where a family knows."""
    found = (family.title_of(public) for family in FAMILIES)
    return next((title for title in found if title), None)


def _value_of(name: str) -> Callable[[Score], float | None]:
    def value(score: Score) -> float | None:
        return next((p.value for p in score.parts if p.name == name and p.applies), None)

    return value


def _share_cell(value: Callable[[Score], float | None], score: Score) -> str:
    share = value(score)
    return "" if share is None else f"{share:.0%}"


def _alarm_of(part: PartSpec) -> AlarmSpec | None:
    declared = (family.alarms.get(part.use) for family in FAMILIES)
    return part.alarm or next((alarm for alarm in declared if alarm), None)


def _share_of(level: str) -> Callable[[Score], float | None]:
    return lambda score: level_shares(score).get(level)
