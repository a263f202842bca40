"""Two runs side by side on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from collab.cli.screen.page import BAD, DIM, GOOD, NAME, WARN, Column, Page, Piece
from collab.evaluation.diff import RunDiff, Side
from collab.evaluation.intervals import METHOD
from collab.evaluation.results import change_cell, estimate_text, title_of
from collab.evaluation.table import TableCell as Cell
from collab.runs import metric_names as names
from collab.wording import counted


def show_diff(page: Page, found: RunDiff) -> None:
    """Settings that differ, then results, then what training changed."""
    for label, side in _labelled(found):
        told = f" {side.folder}: {side.team}, {counted(side.problems, 'problem')}, {side.status}"
        page.line((label, NAME), told)
    page.line()
    if found.settings:
        columns = [Column("setting", wrap=True), Column("A", wrap=True), Column("B", wrap=True)]
        rows = [[s.key, _or_none(s.first), _or_none(s.second)] for s in found.settings]
        page.table(columns, rows)
    else:
        page.line("no setting differs")
    _show_metrics(page, found)
    _show_training(page, _labelled(found))
    for note in found.notes:
        page.line(("note: ", WARN), note)


def _labelled(found: RunDiff) -> Sequence[tuple[str, Side]]:
    return [("A", found.first), ("B", found.second)]


def _or_none(value: str | None) -> str:
    return "-" if value is None else value


def _show_metrics(page: Page, found: RunDiff) -> None:
    if not found.metrics:
        return
    page.line()
    page.line((f"on the {counted(found.shared, 'problem')} of both", NAME))
    columns = [Column(""), *(Column(name, right=True) for name in ("B less A", "A", "B"))]
    rows: list[list[Piece]] = []
    for name, pair in found.metrics.items():
        if names.matched(names.VALUE_OF_PART, name) is None:
            means = [estimate_text(name, each) for each in (pair.first, pair.second)]
            rows.append([title_of(name), _piece(change_cell(name, pair.difference)), *means])
    page.table(columns, rows)
    page.line((f"in brackets 95% intervals ({METHOD}); differences are paired by problem", DIM))


def _show_training(page: Page, sides: Sequence[tuple[str, Side]]) -> None:
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


def _piece(cell: Cell) -> Piece:
    return (cell.text, GOOD if cell.sign > 0 else BAD) if cell.sign else cell.text
