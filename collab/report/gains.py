"""What training changed on held-out tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from collab.evaluation.intervals import METHOD, difference_interval, mean_interval
from collab.report.cohorts import Cohort
from collab.report.equal import told_equal
from collab.report.panels import RETURN, Panel, Series, Unit
from collab.report.reach import bounded, most_of
from collab.report.runs import Run, at_most, largest_return
from collab.report.tables import NONE, Cell, Table, estimate, make_table, words
from collab.trainers.training.events import TaskResult

MODES = ("sampled", "greedy")

Values = dict[str, float]
"""By task."""


def held_out_panels(cohorts: Sequence[Cohort]) -> Iterator[Panel]:
    """Returns and solved shares on held-out tasks, a point for each evaluation."""
    for title, solved in (("Joint return, held out", False), ("Solved, held out", True)):
        series = [
            found
            for number, cohort in enumerate(cohorts)
            for mode in MODES
            if (found := _points(cohort, number, mode, solved=solved, named=len(cohorts) > 1))
        ]
        note = f"Whiskers: 95 % intervals, {METHOD}."
        if any(len(cohort.runs) > 1 for cohort in cohorts):
            note += " Each problem's value is its mean over seeds."
        if series:
            runs = [run for cohort in cohorts for run in cohort.runs]
            unit: Unit = "share" if solved else "number"
            panel = Panel(title, RETURN, series, unit, note)
            most = 1.0 if solved else most_of("return", unit, "", runs)
            yield told_equal(bounded(panel, most), merge=len(cohorts) == 1)


def _points(cohort: Cohort, number: int, mode: str, *, solved: bool, named: bool) -> Series | None:
    x, y, low, high = [], [], [], []
    for step in sorted({e.step for run in cohort.runs for e in run.evaluations}):
        found = [v for run in cohort.runs if (v := values_of(run, step, mode, solved=solved))]
        tasks = dict.fromkeys(task for values in found for task in values)
        means = [fmean(v[task] for v in found if task in v) for task in tasks]
        if means:
            least, most = mean_interval(means, min(0.0, *means), _most(cohort, solved, means))
            x.append(float(step))
            y.append(fmean(means))
            low.append(least)
            high.append(most)
    if not x:
        return None
    label = f"{cohort.label}, {mode}" if named else mode
    color = number if named else MODES.index(mode)
    return Series(label, mode, color, x, y, low, high, style="points", dashed=mode == "greedy")


def ends_of(cohort: Cohort, mode: str, *, solved: bool) -> tuple[Values, Values]:
    """What each problem earned in the first evaluation and in the last, over all seeds.

    Both have the same problems; runs with fewer than two evaluations are left out.
    """
    pairs = [
        (
            values_of(run, steps[0], mode, solved=solved),
            values_of(run, steps[-1], mode, solved=solved),
        )
        for run in cohort.runs
        if len(steps := [evaluation.step for evaluation in run.evaluations]) > 1
    ]
    tasks = dict.fromkeys(task for before, after in pairs for task in before if task in after)

    def over_seeds(end: int) -> Values:
        return {
            task: fmean(pair[end][task] for pair in pairs if task in pair[0] and task in pair[1])
            for task in tasks
        }

    return over_seeds(0), over_seeds(1)


def values_of(run: Run, step: int, mode: str, *, solved: bool) -> Values:
    """What an evaluation found."""
    for evaluation in run.evaluations:
        if evaluation.step == step:
            results: dict[str, TaskResult] = getattr(evaluation, mode)
            found = {t: r.solved if solved else r.joint_return for t, r in results.items()}
            return {task: value for task, value in found.items() if value is not None}
    return {}


def _most(cohort: Cohort, solved: bool, means: Sequence[float]) -> float:
    """The largest value that the mean could have."""
    return 1.0 if solved else max(*means, *(largest_return(run) or 0.0 for run in cohort.runs))


def held_out_table(runs: Sequence[Run]) -> Table | None:
    """Before and after training, paired by task."""
    rows = [
        row
        for run in runs
        for mode in MODES
        if (row := _gain_row(run, mode, named=len(runs) > 1)) is not None
    ]
    if not rows:
        return None
    columns = ["Held out", "Problems", "Before", "After", "Gain", "Solved before", "Solved after"]
    note = f"Returns{at_most(runs)}, paired by problem. 95 % intervals of the gain: {METHOD}."
    return make_table("Before and after training", columns, rows, note)


def _gain_row(run: Run, mode: str, *, named: bool) -> list[Cell] | None:
    steps = [evaluation.step for evaluation in run.evaluations]
    if len(steps) < 2:
        return None
    before, after = (values_of(run, step, mode, solved=False) for step in (steps[0], steps[-1]))
    tasks = [task for task in before if task in after]
    if not tasks:
        return None
    gains = [after[task] - before[task] for task in tasks]
    span = max(largest_return(run) or 0.0, *map(abs, gains))
    passed = [values_of(run, step, mode, solved=True) for step in (steps[0], steps[-1])]
    solved = [[found[task] for task in tasks if task in found] for found in passed]
    return [
        words(f"{run.name}, {mode}" if named else mode),
        words(len(tasks)),
        estimate(fmean(before[task] for task in tasks), None, "points"),
        estimate(fmean(after[task] for task in tasks), None, "points"),
        estimate(fmean(gains), difference_interval(gains, span), "points", change=True),
        *(estimate(fmean(shares), None, "share") if shares else words(NONE) for shares in solved),
    ]
