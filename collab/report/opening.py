"""The opening of a report: tables of means with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from collab.evaluation import intervals
from collab.evaluation.results import Estimate, Results, metric_names, metric_rows, sections
from collab.evaluation.table import ResultTable
from collab.evaluation.values import estimates_of, explain_results, task_values
from collab.records import Episode
from collab.report.runs import Run, largest_return

METHOD = f"95 % intervals: {intervals.METHOD}."


@dataclass(frozen=True)
class Opening:
    """The tables and notes at the top of a report."""

    tables: list[ResultTable] = field(default_factory=list)
    note: str = ""


def joined(openings: Sequence[Opening]) -> Opening:
    """Return several openings as one, in order."""
    return Opening(
        [table for opening in openings for table in opening.tables],
        " ".join(dict.fromkeys(o.note for o in openings if o.note)),
    )


def evaluation_opening(results: Results) -> Opening:
    """Return the tables of an evaluation, to open the report with."""
    if not results.teams:
        return Opening()
    note = "; ".join([explain_results(results), "differences are paired by problem"])
    notes = [f"{note[0].upper()}{note[1:]}.", *results.notes]
    return Opening(sections(results), " ".join(notes))


def run_opening(runs: Sequence[Run]) -> Opening:
    """Return the opening for runs without training, empty if there is no score."""
    scored = [(run, metrics) for run in runs if (metrics := _estimates(run))]
    if not scored:
        return Opening()
    columns = [(metrics, largest_return(run)) for run, metrics in scored]
    rows = [*metric_rows(metric_names([metrics for metrics, _ in columns]), columns)]
    labels = ["mean"] if len(scored) == 1 else [run.name for run, _ in scored]
    note = f"Means over problems. Brackets contain {METHOD}"
    if len({frozenset(e.task for e in run.episodes) for run, _ in scored}) > 1:
        note += " The runs have different problems."
    return Opening([ResultTable("Results", ["", *labels], rows)], note)


def _estimates(run: Run) -> dict[str, Estimate]:
    groups: dict[str, list[Episode]] = {}
    for episode in run.episodes:
        groups.setdefault(episode.task, []).append(episode)
    return estimates_of(task_values(groups, ()), largest_return(run) or 1.0)
