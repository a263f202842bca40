"""A study in numbers: what `study.json` holds, `--json` ends with and the table shows.

Values are of held-out tasks: returns in points, or shares of the episodes that are solved, as the
study's `measure` says. Intervals are over seeds.
"""

from __future__ import annotations

from typing import Literal

from collab.naming import FolderName
from collab.records import Record
from collab.study.spec import Measure

Status = Literal["waiting", "interrupted", "failed", "done"]


class OverSeeds(Record):
    """A mean over seeds, or over pairs of runs, with its interval."""

    mean: float
    low: float | None
    """None, as is `high`, where all values are equal: what did not vary in a few seeds does not say
    how far it may."""
    high: float | None
    tasks: int
    """How many values there are."""

    @property
    def interval(self) -> tuple[float, float] | None:
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def without_interval(self) -> str:
        """What is told in the interval's place."""
        return f"all {self.tasks} equal" if self.tasks > 1 else "only 1"


class Point(Record):
    """One evaluation of a cell."""

    tokens: int
    """Generated in training before it."""
    value: float
    """The mean over held-out tasks of what the study measures."""


class CellResult(Record):
    name: FolderName
    """Of its folder, below the study's."""
    task: str
    trainer: str
    seed: int
    status: Status
    message: str | None = None
    """Why it failed."""
    seconds: float = 0.0
    points: tuple[Point, ...] = ()
    maximum: float | None = None
    """The largest value."""


class TrainerResult(Record):
    """One trainer on one suite, over the seeds whose cells are done."""

    task: str
    trainer: str
    seeds: tuple[int, ...]
    curve: tuple[OverSeeds, ...]
    """The value at each of the study's marks."""
    on_the_way: OverSeeds
    """The mean value over all tokens of the budget: the higher, the sooner it was learned."""
    level: float
    """The value that is to be reached."""
    tokens_to_level: tuple[float | None, ...]
    """By seed; None where it was not reached."""
    tokens: OverSeeds | None = None
    """Their mean, where every seed reached it."""
    maximum: float


class Difference(Record):
    """A trainer less the first one, paired by suite and seed."""

    task: str | None
    """None for all suites together, in shares of the largest value."""
    trainer: str
    baseline: str
    pairs: int
    end: OverSeeds
    """Of the values when all tokens are spent."""
    on_the_way: OverSeeds


class StudyStarted(Record):
    type: Literal["study.started"] = "study.started"
    study: str
    folder: str
    cells: int
    done: int
    """Cells that an earlier call has finished."""
    jobs: int


class CellStarted(Record):
    type: Literal["cell.started"] = "cell.started"
    cell: str
    resumed: bool


class CellFinished(Record):
    type: Literal["cell.finished"] = "cell.finished"
    cell: str
    status: Status
    message: str | None = None
    seconds: float


class StudyResults(Record):
    type: Literal["study.finished"] = "study.finished"
    study: str
    description: str
    status: Literal["running", "done", "interrupted", "failed"]
    """`failed`: every cell has ended, and some of them failed."""
    measure: Measure = "return"
    tokens: int
    """The budget of each cell."""
    marks: tuple[int, ...]
    cells: tuple[CellResult, ...]
    trainers: tuple[TrainerResult, ...] = ()
    differences: tuple[Difference, ...] = ()
    command: tuple[str, ...] = ()


StudyEvent = StudyStarted | CellStarted | CellFinished | StudyResults
