"""`collab diff`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from collab.cli.options import JSON, argument, complete_runs
from collab.cli.screen.page import BOLD, WARN, Page, open_page
from collab.cli.screen.results import show_table
from collab.evaluation.intervals import BRACKETS_CAPTION, PAIRED_CAPTION
from collab.evaluation.results import estimate_cell, metric_title
from collab.evaluation.table import ResultTable, TableRow, text_cell
from collab.runs import metric_names as names
from collab.wording import counted

if TYPE_CHECKING:
    from collab.evaluation.diff import RunDiff
    from collab.evaluation.results import Estimate


def command(
    first: Path = argument(
        "A", "The folder of a run, training run or evaluation.", autocompletion=complete_runs
    ),
    second: Path = argument("B", "The folder to compare with A.", autocompletion=complete_runs),
    *,
    json: bool = JSON,
) -> None:
    """Compare two recorded runs, training runs or evaluations.

    The command shows the settings that differ, and results paired by problem.
    For training runs, it also shows held-out results before and after. Two
    evaluations are compared team by team, by name. To compare two teams of one
    evaluation, pass their folders, as in the second example.

    Examples:
      collab diff runs/first runs/second
      collab diff evals/first/coding evals/first/coding-single
      collab diff runs/first runs/second --json | jq .settings

    Exit status:
      0  the runs were compared, regardless of differences
      2  bad usage, or a folder cannot be read
    """
    from collab.cli.screen.streams import json_text
    from collab.evaluation.diff import diff

    for difference in diff(first, second):
        if json:
            print(json_text(difference))
        else:
            _show(open_page(), difference)


def _show(page: Page, runs: RunDiff) -> None:
    """Show settings that differ, results, and held-out results before and after training."""
    for label, side in (("A", runs.first), ("B", runs.second)):
        text = f" {side.folder}: {side.team}, {counted(side.problems, 'problem')}, {side.status}"
        page.line((label, BOLD), text)
    page.line()
    if runs.settings:
        rows = [
            [s.key, *("-" if v is None else v for v in (s.first, s.second))] for s in runs.settings
        ]
        page.table(["setting", "A", "B"], rows)
    else:
        page.line("no setting differs")
    for table in filter(None, (_metrics_table(runs), _training_table(runs))):
        show_table(page, table)
    for note in runs.notes:
        page.line(("note: ", WARN), note)


def _metrics_table(runs: RunDiff) -> ResultTable | None:
    rows = [
        _row(name, pair.difference, pair.first, pair.second)
        for name, pair in runs.metrics.items()
        if names.match_pattern(names.VALUE, name) is None
    ]
    title = f"on the {counted(runs.shared, 'problem')} that both ran"
    note = f"{BRACKETS_CAPTION}; {PAIRED_CAPTION}"
    return ResultTable(title, ["", "B less A", "A", "B"], rows, note) if rows else None


def _training_table(runs: RunDiff) -> ResultTable | None:
    rows: list[TableRow] = [
        [text_cell(label), *_row(name, gain, side.before[name], side.metrics[name])]
        for label, side in (("A", runs.first), ("B", runs.second))
        for name, gain in side.gain.items()
    ]
    columns = ["", "metric", "gain", "before", "after"]
    return ResultTable("held out, before and after training", columns, rows) if rows else None


def _row(name: str, change: Estimate, *ends: Estimate) -> TableRow:
    cells = [estimate_cell(name, each) for each in ends]
    return [text_cell(metric_title(name)), estimate_cell(name, change, change=True), *cells]
