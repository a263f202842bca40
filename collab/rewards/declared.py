"""The display and alarms that a reward declares."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from collab.recipe import Recipe
from collab.recipe.reward import AlarmSpec, RewardSpec
from collab.recipe.team import Roles
from collab.records import Score
from collab.rewards.library import ALARMS, MEASURES, open_part
from collab.rewards.measures import share_of
from collab.runs.metric_names import POINTS, VALUE, fill_pattern


@dataclass(frozen=True)
class WatchedMetric:
    """A training metric watched by an alarm."""

    metric: str
    scale: float
    """Value of the metric if the part's value is 1."""
    alarm: AlarmSpec


def watched_metrics(reward: RewardSpec | None) -> Iterator[WatchedMetric]:
    """Yield the built-in alarms in training, and those that this reward declares."""
    for measure in MEASURES:
        if measure.alarm and measure.metric:
            yield WatchedMetric(measure.metric, 1.0, measure.alarm)
    for name, part in reward.parts.items() if reward else ():
        if alarm := part.alarm or ALARMS.get(part.use):
            pattern = POINTS if part.weight else VALUE
            yield WatchedMetric(fill_pattern(pattern, name), part.weight or 1.0, alarm)


def best_of_readers(reward: RewardSpec | None) -> dict[str, Callable[[Score], float | None]]:
    """Return, by the name of each best-of-k metric, the function that reads the metric's value from
    a score."""
    readers = {measure.best_of: measure.read for measure in MEASURES if measure.best_of}
    return readers | {name: share_of(level) for name, level in best_levels(reward).items()}


def best_levels(reward: RewardSpec | None) -> dict[str, str]:
    """Return, by the name of each best-of-k metric that reads a level's share, that level."""
    levels = {measure.best_of: measure.level for measure in MEASURES if measure.level}
    parts = reward.parts if reward else {}
    return levels | {part.best_of: part.level or n for n, part in parts.items() if part.best_of}


@dataclass(frozen=True)
class ScoreColumn:
    """A column that a reward adds to lists of episodes."""

    head: str
    cell: Callable[[Score], str]
    value: Callable[[Score], float | None]
    """Number to sort the column by."""


def score_columns(reward: RewardSpec | None) -> list[ScoreColumn]:
    """Return the score columns of this reward, or of all rewards if there is none."""
    columns = [ScoreColumn(m.column, m.cell, m.read) for m in MEASURES if m.column]
    for name, part in reward.parts.items() if reward else ():
        if part.shown_as:
            value, cell = partial(part_value, name), partial(_share_cell, name)
            columns.append(ScoreColumn(part.shown_as, cell, value))
    return columns


def measures_of(score: Score) -> list[str]:
    """Return a score's measures in words, e.g. `3 of 5 tests`. The reward is left out."""
    return [text for measure in MEASURES if (text := measure.describe(score))]


def earnings_of(score: Score) -> list[str]:
    """Return in words what each agent earns, if agents earn different rewards."""
    return [f"{agent} earns {reward:+.2f}" for agent, reward in score.by_agent.items()]


def part_value(name: str, score: Score | None) -> float | None:
    """Return the value of the part called `name`, or None if it does not apply."""
    parts = score.parts if score else ()
    return next((part.value for part in parts if part.name == name and part.applies), None)


def _share_cell(name: str, score: Score) -> str:
    share = part_value(name, score)
    return "" if share is None else f"{share:.0%}"


def describe_scoring(recipe: Recipe, joined: Sequence[str] | None = None) -> list[str]:
    """Return lines about who writes the answer, the highest reward, and the parts that do not
    apply.

    `joined` are agents whose answers the team's protocol may choose, or None if the protocol does
    not choose.
    """
    roles, agents = recipe.team.roles, [*recipe.team.agents]
    others = [agent for agent in agents if agent not in roles.contributors]
    lines = []
    if joined is not None:
        roles = roles.limited_to(joined)
        lines.append("answer: the protocol chooses whose counts")
    elif others:
        writers = ", ".join(roles.contributors)
        lines.append(f"answer: written by {writers}, not by {', '.join(others)}")
    if recipe.reward is None:
        return lines
    inapplicable = _inapplicable_parts(recipe, roles)
    applicable = [p for name, p in recipe.reward.parts.items() if name not in inapplicable]
    limit = math.fsum(part.weight for part in applicable if part.weight > 0)
    lines.append(f"reward: at most {limit:g} per turn")
    for why in dict.fromkeys(inapplicable.values()):
        names = [name for name, reason in inapplicable.items() if reason == why]
        lines.append(f"  without {', '.join(names)}: {why}")
    return lines


def parts_about_others(recipe: Recipe) -> list[str]:
    """Return the names of the parts that read an agent which does not contribute."""
    others = {*recipe.team.agents} - {*recipe.team.roles.contributors}
    parts = recipe.reward.parts.items() if recipe.reward else ()
    return [n for n, p in parts if others.intersection(open_part(n, p).agents_by_option.values())]


def _inapplicable_parts(recipe: Recipe, roles: Roles) -> dict[str, str]:
    """Map each part that does not apply to the team to the reason."""
    inapplicable: dict[str, str] = {}
    for name, spec in recipe.reward.parts.items() if recipe.reward else ():
        why = open_part(name, spec).inapplicable_reason(roles, recipe.team.agents)
        if not why and spec.requires in inapplicable:
            why = f"requires '{spec.requires}', which does not apply"
        if why:
            inapplicable[name] = why
    return inapplicable
