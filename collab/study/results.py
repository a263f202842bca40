"""The results of a study and its events: curves, tokens to a level, paired differences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Literal

import numpy as np

from collab.evaluation.results import OverSeeds
from collab.evaluation.seeds import change_over_seeds, mean_over_seeds
from collab.naming import FolderName
from collab.records import Record
from collab.stats import mean
from collab.study.spec import StudyMeasure

CellStatus = Literal["waiting", "interrupted", "failed", "done"]
StudyStatus = Literal["running", "done", "interrupted", "failed"]


class Point(Record):
    """One evaluation of a cell."""

    tokens: int
    """Number of tokens generated in training before the evaluation."""
    value: float
    """Mean over held-out tasks of the study's measure."""


class CellResult(Record):
    """The result of one training run of a study."""

    name: FolderName
    """The name of its folder, in the study's folder."""
    task: str
    trainer: str
    seed: int
    status: CellStatus
    message: str | None = None
    """The error of a failed cell."""
    seconds: float = 0.0
    points: tuple[Point, ...] = ()
    maximum: float | None = None
    """The largest value."""

    @property
    def gap(self) -> str:
        """Note on a cell that the study's numbers leave out, or "" if they include it."""
        is_done = self.status == "done"
        if is_done and self.points:
            return ""
        state = "done, but has no readable evaluation" if is_done else self.status
        why = f": {self.message}" if self.message else ""
        return f"{self.name} is {state}, so the study's numbers do not include it{why}"


class TrainerResult(Record):
    """One trainer on one suite, over the seeds with finished cells."""

    task: str
    trainer: str
    seeds: tuple[int, ...]
    curve: tuple[OverSeeds, ...]
    """The value at each of the study's marks."""
    on_the_way: OverSeeds
    """Mean value over the whole token budget. It is higher if the team learned sooner."""
    level: float
    """The value to reach: halfway from the start to the best final result on the suite."""
    tokens_to_level: tuple[float | None, ...]
    """One number per seed, or None if the level was not reached, or lies below the start."""
    tokens: OverSeeds | None = None
    """Mean number of tokens to the level, if every seed reached it."""
    maximum: float


class TrainerDifference(Record):
    """The difference between a trainer and the first one, paired by suite and seed."""

    task: str | None
    """Suite of the comparison. None means all suites together, in shares of the largest value."""
    trainer: str
    baseline: str
    pairs: int
    end: OverSeeds
    """The difference of the last values."""
    on_the_way: OverSeeds


class StudyStarted(Record):
    type: Literal["study.started"] = "study.started"
    study: str
    folder: str
    cells: int
    done: int
    """Number of cells that an earlier call has finished."""
    jobs: int


class CellStarted(Record):
    type: Literal["cell.started"] = "cell.started"
    cell: str
    resumed: bool


class CellFinished(Record):
    type: Literal["cell.finished"] = "cell.finished"
    cell: str
    status: CellStatus
    message: str | None = None
    seconds: float


class StudyResults(Record):
    """The results of a study: its cells, trainers and differences."""

    type: Literal["study.finished"] = "study.finished"
    study: str
    description: str
    status: StudyStatus
    """`failed`: every cell has ended, and some of them failed."""
    measure: StudyMeasure = "return"
    tokens: int
    """The budget of each cell."""
    marks: tuple[int, ...]
    cells: tuple[CellResult, ...]
    trainers: tuple[TrainerResult, ...] = ()
    differences: tuple[TrainerDifference, ...] = ()
    command: tuple[str, ...] = ()


StudyEvent = StudyStarted | CellStarted | CellFinished | StudyResults


DoneCells = Mapping[tuple[str, str, int], CellResult]
"""Finished cells, by suite, trainer and seed."""


def trainer_results(cells: Sequence[CellResult], marks: Sequence[int]) -> list[TrainerResult]:
    """Return a result for each trainer and suite with a finished cell."""
    done = [cell for cell in cells if not cell.gap]
    results = []
    for task in dict.fromkeys(cell.task for cell in done):
        of_task = [cell for cell in done if cell.task == task]
        goal = _target_level(of_task, marks)
        improves = goal >= mean([cell.points[0].value for cell in of_task])
        for trainer in dict.fromkeys(cell.trainer for cell in of_task):
            same = [cell for cell in of_task if cell.trainer == trainer]
            results.append(_trainer_result(same, marks, goal, improves=improves))
    return results


def differences(cells: Sequence[CellResult], marks: Sequence[int]) -> Iterator[TrainerDifference]:
    """Yield the difference of each trainer from the first, per suite and over all suites."""
    done = {(c.task, c.trainer, c.seed): c for c in cells if not c.gap}
    tasks = list(dict.fromkeys(task for task, _, _ in done))
    trainers = list(dict.fromkeys(cell.trainer for cell in cells))
    for trainer in trainers[1:]:
        for task in tasks:
            yield from _trainer_difference(done, marks, trainers[0], trainer, task)
        if len(tasks) > 1:
            yield from _trainer_difference(done, marks, trainers[0], trainer, None)


def value_at(points: Sequence[Point], tokens: float) -> float:
    """Return the mean return at `tokens`, interpolated linearly between evaluations.

    Outside their range it is the first or last value.
    """
    return float(np.interp(tokens, [p.tokens for p in points], [p.value for p in points]))


def tokens_to_reach(points: Sequence[Point], level: float, budget: int) -> float | None:
    """Return the tokens at which the return first reaches `level`, or None if the budget does not
    suffice."""
    if points[0].value >= level:
        return float(points[0].tokens)
    for before, after in pairwise(points):
        if after.value >= level:
            share = (level - before.value) / (after.value - before.value)
            tokens = before.tokens + share * (after.tokens - before.tokens)
            return tokens if tokens <= budget else None
    return None


def mean_over_budget(points: Sequence[Point], budget: int) -> float:
    """Return the mean of the interpolated return over all tokens of the budget."""
    tokens = [0, *(point.tokens for point in points if point.tokens < budget), budget]
    return float(np.trapezoid([value_at(points, each) for each in tokens], tokens)) / budget


def _target_level(cells: Sequence[CellResult], marks: Sequence[int]) -> float:
    trainers = dict.fromkeys(cell.trainer for cell in cells)
    ends = [
        mean([value_at(c.points, marks[-1]) for c in cells if c.trainer == name])
        for name in trainers
    ]
    return (mean([cell.points[0].value for cell in cells]) + max(ends)) / 2


def _trainer_result(
    cells: Sequence[CellResult], marks: Sequence[int], level: float, *, improves: bool
) -> TrainerResult:
    largest = _maximum(cells)
    reached = [
        tokens_to_reach(cell.points, level, marks[-1]) if improves else None for cell in cells
    ]
    known = [tokens for tokens in reached if tokens is not None]
    return TrainerResult(
        task=cells[0].task,
        trainer=cells[0].trainer,
        seeds=tuple(cell.seed for cell in cells),
        curve=tuple(
            mean_over_seeds([value_at(c.points, mark) for c in cells], largest) for mark in marks
        ),
        on_the_way=mean_over_seeds([mean_over_budget(c.points, marks[-1]) for c in cells], largest),
        level=level,
        tokens_to_level=tuple(reached),
        tokens=mean_over_seeds(known, marks[-1]) if len(known) == len(cells) else None,
        maximum=largest,
    )


def _trainer_difference(
    done: DoneCells, marks: Sequence[int], base: str, trainer: str, task: str | None
) -> Iterator[TrainerDifference]:
    pairs = [
        (done[name, base, seed], cell)
        for (name, other, seed), cell in done.items()
        if other == trainer and (task is None or name == task) and (name, base, seed) in done
    ]
    if not pairs:
        return
    scales = [_maximum(pair) if task is None else 1.0 for pair in pairs]
    span = 1.0 if task is None else max(_maximum(pair) for pair in pairs)
    ends, ways = (
        [value(b.points, marks[-1]) - value(a.points, marks[-1]) for a, b in pairs]
        for value in (value_at, mean_over_budget)
    )
    yield TrainerDifference(
        task=task,
        trainer=trainer,
        baseline=base,
        pairs=len(pairs),
        end=change_over_seeds([v / s for v, s in zip(ends, scales, strict=True)], span),
        on_the_way=change_over_seeds([v / s for v, s in zip(ways, scales, strict=True)], span),
    )


def _maximum(cells: Sequence[CellResult]) -> float:
    """Return the largest possible return, or the largest one seen if that is unknown."""
    known = [cell.maximum for cell in cells if cell.maximum]
    return max(known or [abs(p.value) for c in cells for p in c.points]) or 1.0
