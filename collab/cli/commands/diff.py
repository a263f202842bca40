"""`collab diff`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from collab.cli.options import Json, complete_runs
from collab.cli.screen.page import BAD, DIM, GOOD, NAME, WARN, Column, Page, Piece
from collab.runs import metric_names as names
from collab.wording import counted

if TYPE_CHECKING:
    from collab.evaluation.diff import RunDiff, Side
    from collab.evaluation.table import TableCell

First = Annotated[
    Path,
    typer.Argument(
        metavar="A", help="The folder of a run or evaluation.", autocompletion=complete_runs
    ),
]
Second = Annotated[
    Path,
    typer.Argument(
        metavar="B", help="The folder to compare it with.", autocompletion=complete_runs
    ),
]


def command(first: First, second: Second, *, json: Json = False) -> None:
    """Compare two runs, trainings or evaluations that are recorded.

    Told are the settings that differ, results paired by problem where both played
    the same problems, with 95 % intervals, and of trainings what held-out problems
    say before and after. Of evaluations the teams of one name are compared.

    [bold]Examples[/]
      collab diff runs/first runs/second
      collab diff evals/first/coding evals/first/coding-single
      collab diff runs/first runs/second --json | jq .settings
    """
    from collab.cli.screen.streams import json_text
    from collab.cli.screen.terminal import open_page
    from collab.evaluation.diff import diff

    for difference in diff(first, second):
        if json:
            print(json_text(difference))
        else:
            _show(open_page(), difference)


def _show(page: Page, runs: RunDiff) -> None:
    """Settings that differ, then results, then what training changed."""
    for label, side in _labelled(runs):
        text = f" {side.folder}: {side.team}, {counted(side.problems, 'problem')}, {side.status}"
        page.line((label, NAME), text)
    page.line()
    if runs.settings:
        columns = [Column("setting", wrap=True), Column("A", wrap=True), Column("B", wrap=True)]
        rows = [[s.key, _or_none(s.first), _or_none(s.second)] for s in runs.settings]
        page.table(columns, rows)
    else:
        page.line("no setting differs")
    _show_metrics(page, runs)
    _show_training(page, _labelled(runs))
    for note in runs.notes:
        page.line(("note: ", WARN), note)


def _labelled(runs: RunDiff) -> Sequence[tuple[str, Side]]:
    return [("A", runs.first), ("B", runs.second)]


def _or_none(value: str | None) -> str:
    return "-" if value is None else value


def _show_metrics(page: Page, runs: RunDiff) -> None:
    from collab.evaluation.intervals import METHOD
    from collab.evaluation.results import change_cell, estimate_text, title_of

    if not runs.metrics:
        return
    page.line()
    page.line((f"on the {counted(runs.shared, 'problem')} of both", NAME))
    columns = [Column(""), *(Column(name, right=True) for name in ("B less A", "A", "B"))]
    rows: list[list[Piece]] = []
    for name, pair in runs.metrics.items():
        if names.matched(names.VALUE_OF_PART, name) is None:
            means = [estimate_text(name, each) for each in (pair.first, pair.second)]
            rows.append([title_of(name), _piece(change_cell(name, pair.difference)), *means])
    page.table(columns, rows)
    page.line((f"in brackets 95% intervals ({METHOD}); differences are paired by problem", DIM))


def _show_training(page: Page, sides: Sequence[tuple[str, Side]]) -> None:
    from collab.evaluation.results import change_cell, estimate_text, title_of

    rows: list[list[Piece]] = []
    for label, side in sides:
        for name, gain in side.gain.items():
            ends = [estimate_text(name, each[name]) for each in (side.before, side.metrics)]
            rows.append([label, title_of(name), _piece(change_cell(name, gain)), *ends])
    if rows:
        columns = [Column("held out"), Column("")]
        columns += [Column(name, right=True) for name in ("gain", "before", "after")]
        page.line()
        page.table(columns, rows)


def _piece(cell: TableCell) -> Piece:
    return (cell.text, GOOD if cell.sign > 0 else BAD) if cell.sign else cell.text
