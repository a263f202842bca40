"""The tables of results at the top of a report: means with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter

from collab.evaluation.intervals import BRACKETS_CAPTION
from collab.evaluation.results import Estimate, Results, metric_rows, ordered_metrics, result_tables
from collab.evaluation.table import ResultTable
from collab.evaluation.values import estimates_of, explain_results, task_values
from collab.report.runs import Run, largest_return
from collab.stats import group_by


def evaluation_tables(results: Results) -> list[ResultTable]:
    """Return the tables of an evaluation, with the notes below the last one."""
    if not results.teams:
        return []
    *tables, last = result_tables(results)
    note = f"{explain_results(results)}."
    notes = " ".join([note[0].upper() + note[1:], *results.notes])
    return [*tables, replace(last, note=notes)]


def run_tables(runs: Sequence[Run]) -> list[ResultTable]:
    """Return the table of runs without training, or none if there is no score."""
    estimates = [(run, _estimates(run)) for run in runs]
    scored = [(run, metrics) for run, metrics in estimates if metrics]
    if not scored:
        return []
    columns = [(metrics, largest_return(run)) for run, metrics in scored]
    rows = [*metric_rows(ordered_metrics([metrics for metrics, _ in columns]), columns)]
    labels = ["mean"] if len(runs) == 1 else [run.name for run, _ in scored]
    note = f"Means over problems; {BRACKETS_CAPTION}."
    if len({frozenset(e.task for e in run.episodes) for run, _ in scored}) > 1:
        note += " The runs have different problems."
    if unscored := [run.name for run, metrics in estimates if not metrics]:
        note += f" Without a score: {', '.join(unscored)}."
    return [ResultTable("Results", ["", *labels], rows, note)]


def _estimates(run: Run) -> dict[str, Estimate]:
    groups = group_by(run.episodes, attrgetter("task"))
    return estimates_of(task_values(groups, ()), largest_return(run) or 1.0)
