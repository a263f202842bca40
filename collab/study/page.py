"""The report of a study: its curves and tables, followed by those of its runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from collab.evaluation.results import OverSeeds
from collab.evaluation.seeds import SEEDS_CAPTION
from collab.evaluation.table import (
    CellForm,
    ResultTable,
    TableCell,
    make_table,
    mean_cell,
    text_cell,
)
from collab.report.panels import Panel, Series
from collab.report.report import make_page, make_report
from collab.report.runs import read_runs
from collab.runs.atomic import write_atomically
from collab.runs.layout import REPORT
from collab.stats import mean
from collab.study.results import StudyResults, TrainerDifference, TrainerResult
from collab.wording import counted

SECTION = "Study"


def write_page(results: StudyResults, folder: Path) -> Path | None:
    """Write the report into the study's folder, and return the file, or None if no cell can be read
    yet.

    Raises:
        RecordError: the file cannot be written.
    """
    cells = [folder / cell.name for cell in results.cells if cell.points]
    if not cells:
        return None
    reading = read_runs(cells)
    report = make_report(reading)
    report = replace(
        report,
        title=f"{results.study}: a study of {counted(len(results.cells), 'run')}",
        lead=results.description,
        panels=[*curve_panels(results), *report.panels],
        tables=[*study_tables(results), *report.tables],
        notes=[*(f"{cell.gap}." for cell in results.cells if cell.gap), *report.notes],
    )
    path = folder / REPORT
    write_atomically(path, make_page(report, reading.runs), "free some space")
    return path


def curve_panels(results: StudyResults) -> Iterator[Panel]:
    """Yield a panel per suite: each trainer's return over tokens, and its seeds."""
    names = list(dict.fromkeys(cell.trainer for cell in results.cells))
    for task in dict.fromkeys(trainer.task for trainer in results.trainers):
        of_task = [trainer for trainer in results.trainers if trainer.task == task]
        series = [one for t in of_task for one in _series(t, results, names.index(t.trainer))]
        note = f"Band: {SEEDS_CAPTION}; thin: each seed."
        title = f"{_measure_title(results)} on {task}, over tokens"
        yield Panel(title, SECTION, series, note=note, along="tokens")


def study_tables(results: StudyResults) -> Iterator[ResultTable]:
    """Yield a table of the trainers' results, and one of their differences."""
    several = len({trainer.task for trainer in results.trainers}) > 1
    rows = [_result_row(trainer, several) for trainer in results.trainers]
    if rows:
        yield make_table(
            f"At {results.tokens:,} generated tokens",
            ["Trainer", "Seeds", "Before", "At the end", "On the way", "Level", "Tokens to level"],
            rows,
            f"{_measure_title(results)}. On the way: the mean over all tokens of the budget."
            f" {SEEDS_CAPTION}.",
        )
    rows = [_difference_row(change, several) for change in results.differences]
    if rows:
        yield make_table(
            f"Against {results.differences[0].baseline}",
            ["Trainer", "Pairs", "At the end", "On the way"],
            rows,
            "Differences paired by suite and seed; over all suites in shares of the largest value."
            f" {SEEDS_CAPTION}.",
        )


def _measure_title(results: StudyResults) -> str:
    if results.measure == "solved":
        return "Share of held-out episodes solved"
    return "Held-out return, in points"


def tokens_text(trainer: TrainerResult) -> str:
    """Return the tokens to the level, and the number of seeds that reached it."""
    known = [tokens for tokens in trainer.tokens_to_level if tokens is not None]
    if not known:
        return "not reached"
    if len(known) < len(trainer.tokens_to_level):
        return f"{mean(known):,.0f} ({len(known)} of {len(trainer.tokens_to_level)} seeds)"
    return f"{mean(known):,.0f}"


def _series(trainer: TrainerResult, results: StudyResults, color: int) -> Iterator[Series]:
    where = (trainer.task, trainer.trainer)
    for cell in results.cells:
        if (cell.task, cell.trainer) == where and not cell.gap:
            x, y = [float(p.tokens) for p in cell.points], [p.value for p in cell.points]
            yield Series(trainer.trainer, trainer.trainer, color, x, y, style="thin")
    bands = [point.limits or (point.mean, point.mean) for point in trainer.curve]
    yield Series(
        label=trainer.trainer,
        short=trainer.trainer,
        color=color,
        x=[float(mark) for mark in results.marks],
        y=[point.mean for point in trainer.curve],
        low=[low for low, _ in bands],
        high=[high for _, high in bands],
    )


def _result_row(trainer: TrainerResult, several: bool) -> list[TableCell]:
    return [
        text_cell(f"{trainer.task}, {trainer.trainer}" if several else trainer.trainer),
        text_cell(len(trainer.seeds)),
        _estimate_cell(trainer.curve[0]),
        _estimate_cell(trainer.curve[-1]),
        _estimate_cell(trainer.on_the_way),
        text_cell(f"{trainer.level:.2f}"),
        text_cell(tokens_text(trainer)),
    ]


def _difference_row(change: TrainerDifference, several: bool) -> list[TableCell]:
    where = change.task if change.task is not None else "all suites"
    form: CellForm = "points" if change.task is not None else "share"
    return [
        text_cell(f"{where}, {change.trainer}" if several else change.trainer),
        text_cell(change.pairs),
        _estimate_cell(change.end, form, change=True),
        _estimate_cell(change.on_the_way, form, change=True),
    ]


def _estimate_cell(
    value: OverSeeds, form: CellForm = "points", *, change: bool = False
) -> TableCell:
    cell = mean_cell(value.mean, value.limits, form, change=change)
    return cell if value.limits else replace(cell, interval=value.interval_note)
