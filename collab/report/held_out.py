"""The problems in a report: held-out results before and after training, and a table of all
problems that were run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean

from collab.evaluation.intervals import INTERVALS_CAPTION
from collab.evaluation.results import Estimate
from collab.evaluation.table import (
    NO_VALUE,
    CellForm,
    ResultTable,
    TableCell,
    format_value,
    make_table,
    mean_cell,
    text_cell,
)
from collab.evaluation.values import estimate_of, paired_differences
from collab.records.episode import solved_flags
from collab.report.episodes import ShownEpisode
from collab.report.panels import RETURN_SECTION, Panel, Series, Unit, limit_axis, maximum_of
from collab.report.runs import Cohort, Run, largest_return, maximum_text
from collab.runs import metric_names as names
from collab.stats import group_by
from collab.trainers.training.events import values_by_task
from collab.wording import counted

MODES = ("sampled", "greedy")
TITLES = {names.RETURN: "Joint return", names.SOLVED: "Solved"}

ValuesByTask = dict[str, float]
"""Values by task."""


def held_out_panels(cohorts: Sequence[Cohort]) -> Iterator[Panel]:
    """Yield a panel each of the returns and solved shares, with a point per evaluation."""
    for metric, title in TITLES.items():
        series = [
            points
            for number, cohort in enumerate(cohorts)
            for mode in MODES
            if (points := _points(cohort, number, mode, metric, named=len(cohorts) > 1))
        ]
        note = f"Whiskers: {INTERVALS_CAPTION}."
        if any(len(cohort.runs) > 1 for cohort in cohorts):
            note += " Each problem's value is its mean over seeds."
        if series:
            runs = [run for cohort in cohorts for run in cohort.runs]
            unit: Unit = "share" if metric == names.SOLVED else "number"
            panel = Panel(f"{title}, held out", RETURN_SECTION, series, unit, note)
            largest = maximum_of("open" if unit == "share" else "return", unit, "", runs)
            yield limit_axis(panel, largest)


def _points(cohort: Cohort, number: int, mode: str, metric: str, *, named: bool) -> Series | None:
    points: dict[float, Estimate] = {}
    for step in sorted({e.step for run in cohort.runs for e in run.evaluations}):
        by_run = [v for run in cohort.runs if (v := values_of(run, step, mode, metric))]
        tasks = dict.fromkeys(task for values in by_run for task in values)
        means = [fmean(v[task] for v in by_run if task in v) for task in tasks]
        if means:
            points[float(step)] = estimate_of(
                metric, means, _largest_possible_return(cohort, means)
            )
    if not points:
        return None
    return Series(
        label=f"{cohort.label}, {mode}" if named else mode,
        short=mode,
        color=number if named else MODES.index(mode),
        x=[*points],
        y=[point.mean for point in points.values()],
        low=[point.low for point in points.values()],
        high=[point.high for point in points.values()],
        style="points",
        dashed=mode == "greedy",
    )


def first_and_last_values(
    cohort: Cohort, mode: str, metric: str
) -> tuple[ValuesByTask, ValuesByTask]:
    """Return each problem's mean over all seeds, in the first evaluation and in the last one.

    Both results have the same problems. Runs with fewer than two evaluations are left out.
    """
    pairs = [
        (values_of(run, steps[0], mode, metric), values_of(run, steps[-1], mode, metric))
        for run in cohort.runs
        if len(steps := [evaluation.step for evaluation in run.evaluations]) > 1
    ]
    first: ValuesByTask = {}
    last: ValuesByTask = {}
    for task in dict.fromkeys(task for before, _ in pairs for task in before):
        seeds = [(one[task], two[task]) for one, two in pairs if task in one and task in two]
        if seeds:
            first[task], last[task] = map(fmean, zip(*seeds, strict=True))
    return first, last


def values_of(run: Run, step: int, mode: str, metric: str) -> ValuesByTask:
    """Return the values of a metric in the evaluation after `step`, by task."""
    evaluation = next((each for each in run.evaluations if each.step == step), None)
    return values_by_task(getattr(evaluation, mode), metric) if evaluation else {}


def _largest_possible_return(cohort: Cohort, returns: Sequence[float]) -> float:
    return max(*returns, *(largest_return(run) or 0.0 for run in cohort.runs))


def training_tables(cohorts: Sequence[Cohort]) -> list[ResultTable]:
    """Return the held-out results before and after training, if there are two evaluations."""
    shares = _before_after_table(cohorts, names.SOLVED, "Solved, held out", "share")
    returns = _before_after_table(cohorts, names.RETURN, "Return, held out", "points")
    return [table for table in (shares, returns) if table is not None]


def _before_after_table(
    cohorts: Sequence[Cohort], metric: str, title: str, form: CellForm
) -> ResultTable | None:
    """Return a row for each recipe and mode, with one scale for all."""
    changes = [
        (cohort, mode, before, after)
        for cohort in cohorts
        for mode in MODES
        for before, after in [first_and_last_values(cohort, mode, metric)]
        if before
    ]
    if not changes:
        return None
    bounds = [
        1.0
        if metric == names.SOLVED
        else _largest_possible_return(cohort, [*before.values(), *after.values()])
        for cohort, _, before, after in changes
    ]
    several = len({cohort.label for cohort, *_ in changes}) > 1
    modes = len({mode for _, mode, *_ in changes}) > 1
    rows = []
    for (cohort, mode, before, after), largest in zip(changes, bounds, strict=True):
        labels = [*[cohort.label] * several, *[mode] * (modes or not several)]
        ends = [estimate_of(metric, [*values.values()], largest) for values in (before, after)]
        gain = paired_differences({metric: before}, {metric: after}, largest)[metric]
        scale = max(bounds)
        cells = [mean_cell(end.mean, end.limits, form, largest=scale) for end in ends]
        cells.append(mean_cell(gain.mean, gain.limits, form, change=True, largest=scale))
        rows.append([text_cell(", ".join(labels)), *cells])
    if form == "points":
        differ = "at most " if len(set(bounds)) > 1 else ""
        title += f", of {differ}{format_value(max(bounds), form)}"
    size = counted(max(len(before) for _, _, before, _ in changes), "held-out problem")
    seeds = max(sum(len(run.evaluations) > 1 for run in cohort.runs) for cohort in cohorts)
    size += f", mean of {seeds} seeds" if seeds > 1 else ""
    note = f"{size}. Gains are paired by problem. {INTERVALS_CAPTION}."
    return ResultTable(title, ["", "Before", "After", "Gain"], rows, note)


Places = dict[tuple[int, str, str | None, str | None], int]
"""The first episode of each run, problem, mode and phase."""


def change_table(runs: Sequence[Run], shown: Sequence[ShownEpisode]) -> ResultTable | None:
    """Return a row for each problem, with the gain of each run and sampling mode.

    Gains link to two of the `shown` episodes.
    """
    ends = {
        (number, mode): first_and_last_values(Cohort(run.name, [run]), mode, names.RETURN)
        for number, run in enumerate(runs)
        for mode in MODES
    }
    tasks = sorted({task for before, _ in ends.values() for task in before}, key=natural_sort_key)
    if not tasks:
        return None
    places: Places = {}
    for place, item in enumerate(shown):
        places.setdefault((item.run, item.episode.task, item.mode, item.phase), place)
    titles = [
        f"{runs[number].name}, {mode}" if len(runs) > 1 else f"{mode.capitalize()} gain"
        for number, mode in ends
    ]
    rows = [
        [
            text_cell(task),
            *(_gain_cell(task, place, *values, places) for place, values in ends.items()),
        ]
        for task in tasks
    ]
    note = (
        f"Gains of mean returns{maximum_text(runs)}, with the means before and after training."
        " Each diff compares the first samples before and after training."
    )
    return make_table("Held-out problems one by one", ["Problem", *titles], rows, note)


def _gain_cell(
    task: str, column: tuple[int, str], before: ValuesByTask, after: ValuesByTask, places: Places
) -> TableCell:
    """Return the gain, with the values before and after below it."""
    if task not in before:
        return text_cell(NO_VALUE)
    number, mode = column
    pair = [places.get((number, task, mode, f"held out {end}")) for end in ("before", "after")]
    link = f"{pair[0]}/{pair[1]}" if None not in pair else ""
    values = f"{format_value(before[task], 'points')} → {format_value(after[task], 'points')}"
    gain = mean_cell(after[task] - before[task], None, "points", change=True)
    return replace(gain, pair=link, interval=values)


PlacedEpisodes = list[tuple[int, ShownEpisode]]
"""Episodes, with their positions in the report."""


def task_table(runs: Sequence[Run], shown: Sequence[ShownEpisode]) -> ResultTable | None:
    """Return a row for each problem that is not held out, with a column for each run.

    `shown` are the episodes that count.
    """
    placed = [(place, item) for place, item in enumerate(shown) if item.mode is None]
    groups = group_by(placed, lambda each: (each[1].episode.task, each[1].run))
    tasks = sorted({task for task, _ in groups}, key=natural_sort_key)
    if len(tasks) < 2:
        return None
    numbers = sorted({number for _, number in groups})
    titles = [runs[n].name for n in numbers] if len(runs) > 1 else ["Return"]
    rows = [_task_row(task, [groups.get((task, n), []) for n in numbers]) for task in tasks]
    note = f"Mean returns{maximum_text(runs)}, of the episodes in this report."
    return make_table("Problem by problem", ["Problem", *titles], rows, note)


def _task_row(task: str, by_run: Sequence[PlacedEpisodes]) -> list[TableCell]:
    """Return the cells of a problem. Without training, it links to its first two runs."""
    firsts = [items[0][0] for items in by_run if items]
    trained = any(map(_first_last_pair, by_run))
    pair = f"{firsts[0]}/{firsts[1]}" if len(firsts) > 1 and not trained else ""
    return [text_cell(task, pair=pair), *map(_run_cell, by_run)]


def _run_cell(items: PlacedEpisodes) -> TableCell:
    """Return the mean return of a run on a problem, and its solved episodes."""
    played = [item.episode for _, item in items if not item.episode.further]
    returns = [e.joint_return for e in played if e.joint_return is not None]
    if not returns:
        return text_cell(NO_VALUE, pair=_first_last_pair(items))
    known = solved_flags(played)
    count = f"{sum(known)} of {len(known)} solved" if known else counted(len(played), "episode")
    mean = mean_cell(fmean(returns), None, "points")
    return replace(mean, interval=count, pair=_first_last_pair(items))


def natural_sort_key(name: str) -> list[tuple[bool, int, str]]:
    """Return a sort key that orders numbers within a name as numbers."""
    parts = re.split(r"(\d+)", name)
    return [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts]


def _first_last_pair(items: PlacedEpisodes) -> str:
    """Return an episode of the first step and one of the last."""
    steps = {place: item.step for place, item in items if item.step is not None}
    if len(set(steps.values())) < 2:
        return ""
    first, last = min(steps, key=lambda n: (steps[n], n)), max(steps, key=lambda n: (steps[n], -n))
    return f"{first}/{last}"
