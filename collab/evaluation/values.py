"""From a team's episodes to one value for each metric and task; see `results` for their names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import fsum

from collab.evaluation.metrics import best_of_k, pass_at_k
from collab.records import Episode, PartScore, Score
from collab.stats import mean

COOPERATION = "cooperation"
"""The level of a reward that coop@k is about."""

Values = dict[str, dict[str, float]]
"""By metric, then by task."""


def task_values(groups: Mapping[str, Sequence[Episode]], ks: Sequence[int]) -> Values:
    """The metrics of each task that has a finished episode; `groups` are the episodes by task.

    A metric for k tries needs k episodes that finished.
    """
    values: Values = {}
    for task, group in groups.items():
        whole = [e for e in group if e.failure is None and e.joint_return is not None]
        for metric, value in _of_task(whole, ks) if whole else ():
            values.setdefault(metric, {})[task] = value
    return values


def _of_task(episodes: Sequence[Episode], ks: Sequence[int]) -> Iterator[tuple[str, float]]:
    scores = [episode.score for episode in episodes if episode.score]
    yield from _of_tests(scores, ks)
    cooperation = [s for score in scores if (s := _shares(score).get(COOPERATION)) is not None]
    for k in ks:
        if k <= len(cooperation):
            yield f"coop@{k}", best_of_k(cooperation, k)
    yield "return", mean([e.joint_return or 0.0 for e in episodes])
    yield "return.share", mean([_return_share(e) for e in episodes])
    yield "final.share", mean([score.reward / (score.maximum or 1.0) for score in scores])
    for level, shares in _collect(_shares(score).items() for score in scores).items():
        yield f"level.{level}", mean(shares)
    parts = _collect(((p.name, p.value) for p in s.parts if p.applies) for s in scores)
    for part, found in parts.items():
        yield f"part.{part}", mean(found)


def _of_tests(scores: Sequence[Score], ks: Sequence[int]) -> Iterator[tuple[str, float]]:
    solved = [score.solved for score in scores if score.solved is not None]
    if solved:
        yield "solved", mean(solved)
    fractions = [score.tests.fraction for score in scores if score.tests]
    for k in ks:
        if k <= len(solved):
            yield f"pass@{k}", pass_at_k(len(solved), sum(solved), k)
        if k <= len(fractions):
            yield f"accuracy@{k}", best_of_k(fractions, k)


def _return_share(episode: Episode) -> float:
    """The return of the largest that all turns of the episode could have given."""
    return (episode.joint_return or 0.0) / (episode.largest_return or 1.0)


def _shares(score: Score) -> dict[str, float]:
    """By level; those that do not apply to the team are left out."""
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


def _collect(rows: Iterable[Iterable[tuple[str, float]]]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for row in rows:
        for name, value in row:
            found.setdefault(name, []).append(value)
    return found
