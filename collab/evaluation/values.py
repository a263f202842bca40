"""Computes one value per metric and task from a team's episodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import comb, fsum

from collab.recipe.reward import RewardSpec
from collab.records import Episode, Score
from collab.records.episode import solved_by_turn
from collab.rewards.declared import best_of
from collab.rewards.family import level_shares
from collab.runs import metric_names as names
from collab.stats import mean

Best = Mapping[str, Callable[[Score], float | None]]
"""Values of a score by name; the best of several tries counts."""

Values = dict[str, dict[str, float]]
"""Values by metric, then by task."""


def task_values(
    groups: Mapping[str, Sequence[Episode]], ks: Sequence[int], reward: RewardSpec | None = None
) -> Values:
    """The metrics of each task that has a finished episode; `groups` are the episodes by task.

    A metric for k tries needs k finished episodes. `reward` declares further values to compare by
    their best.
    """
    best = best_of(reward)
    values: Values = {}
    for task, group in groups.items():
        whole = [e for e in group if e.failure is None and e.joint_return is not None]
        for metric, value in _of_task(whole, ks, best) if whole else ():
            values.setdefault(metric, {})[task] = value
    return values


def _of_task(
    episodes: Sequence[Episode], ks: Sequence[int], best: Best
) -> Iterator[tuple[str, float]]:
    scores = [episode.score for episode in episodes if episode.score]
    solved = [score.solved for score in scores if score.solved is not None]
    if solved:
        yield names.SOLVED, mean(solved)
    for k in ks:
        if k <= len(solved):
            yield names.named(names.PASS_AT, k), pass_at_k(len(solved), sum(solved), k)
    for turn, share in solved_by_turn(episodes):
        yield names.named(names.SOLVED_AFTER_TURN, turn), share
    for name, read in best.items():
        known = [value for score in scores if (value := read(score)) is not None]
        for k in ks:
            if k <= len(known):
                yield names.best_of(name, k), best_of_k(known, k)
    yield names.JOINT_RETURN, mean([e.joint_return or 0.0 for e in episodes])
    yield (
        names.RETURN_SHARE,
        mean([(e.joint_return or 0.0) / (e.largest_return or 1.0) for e in episodes]),
    )
    yield names.LAST_REWARD_SHARE, mean([s.reward / (s.maximum or 1.0) for s in scores])
    for level, shares in _collect(level_shares(score).items() for score in scores).items():
        yield names.named(names.LEVEL, level), mean(shares)
    parts = _collect(((p.name, p.value) for p in s.parts if p.applies) for s in scores)
    for part, values in parts.items():
        yield names.named(names.VALUE_OF_PART, part), mean(values)


def _collect(rows: Iterable[Iterable[tuple[str, float]]]) -> dict[str, list[float]]:
    values: dict[str, list[float]] = {}
    for row in rows:
        for name, value in row:
            values.setdefault(name, []).append(value)
    return values


def pass_at_k(n: int, c: int, k: int) -> float:
    """The chance that one of `k` tries passes, when `c` of `n` did: 1 - C(n-c, k) / C(n, k).

    Counts are whole numbers of any size, so nothing is rounded before the division.
    """
    _check(n, k)
    return (comb(n, k) - comb(n - c, k)) / comb(n, k)


def best_of_k(values: Sequence[float], k: int) -> float:
    """The mean, over all subsets of `k`, of the subset's largest value.

    The i-th smallest of n is the largest of C(i-1, k-1) subsets.
    """
    n = len(values)
    _check(n, k)
    subsets = comb(n, k)
    return fsum(value * (comb(i, k - 1) / subsets) for i, value in enumerate(sorted(values)))


def _check(n: int, k: int) -> None:
    if not 1 <= k <= n:
        raise ValueError(f"{k} tries cannot be estimated from {n} samples")
