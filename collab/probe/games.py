"""What games tell that problems with one answer do not: who earned what, and how games ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from collab.evaluation.results import Estimate
from collab.probe.estimates import any_solved, estimate
from collab.probe.results import Best, Game
from collab.records import Episode
from collab.stats import mean

Groups = Mapping[str, Sequence[Episode]]
"""Whole episodes by task."""


def game_of(groups: Groups, agents: Iterable[str], *, crosses: bool) -> Game:
    """What is told of games beside their joint return; `crosses` where answers may be crossed."""
    whole = [episode for group in groups.values() for episode in group]
    scores = [turn.score for e in whole for turn in e.turns if turn.score]
    unequal = any(score.by_agent for score in scores)
    ends = [part.name for e in whole if e.score for part in e.score.parts]
    return Game(
        zero_sum=unequal and not any(score.reward or score.maximum for score in scores),
        crosses=crosses,
        returns={name: _mean(groups, _earned(name)) for name in agents} if unequal else {},
        at_end={name: _mean(groups, _at_end(name)) for name in dict.fromkeys(ends)},
    )


def best_game(groups: Groups) -> Best | None:
    """The best of each task's games; None where there is no group, or the joint return says
    nothing, as in a zero-sum game."""
    most = max((e.largest_return or 0.0 for group in groups.values() for e in group), default=0.0)
    groups = {task: group for task, group in groups.items() if len(group) > 1}
    if not groups or most <= 0:
        return None
    returns = [[e.joint_return or 0.0 for e in group] for group in groups.values()]
    scores = [[e.score for e in group if e.score] for group in groups.values()]
    return Best(
        samples=max(map(len, returns)),
        whole_games=True,
        combinations=None,
        reward=estimate([max(each) for each in returns], most),
        solved=any_solved(scores),
    )


def _mean(groups: Groups, value: Callable[[Episode], float | None]) -> Estimate:
    found = [[v for e in group if (v := value(e)) is not None] for group in groups.values()]
    means = [mean(each) for each in found if each]
    return estimate(means, max(1.0, *means) if means else 1.0)


def _earned(agent: str) -> Callable[[Episode], float]:
    return lambda episode: episode.return_of(agent)


def _at_end(name: str) -> Callable[[Episode], float | None]:
    def value(episode: Episode) -> float | None:
        parts = episode.score.parts if episode.score else ()
        return next((part.value for part in parts if part.name == name), None)

    return value
