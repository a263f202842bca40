"""A study on the terminal: what would be trained, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from collab.cli.screen.page import BAD, DIM, GOOD, NAME, WARN, Column, Page, Piece
from collab.study.page import told_tokens
from collab.study.results import OverSeeds, StudyResults
from collab.study.results import TrainerDifference as Difference
from collab.study.spec import StudySpec
from collab.trainers import Plan
from collab.wording import counted


def show_plan(
    page: Page, spec: StudySpec, plans: Mapping[str, Plan], jobs: int, folder: Path
) -> None:
    """Every cell, with the memory that it takes."""
    page.line(
        (folder.name, NAME),
        f": {counted(len(plans), 'run')} of {spec.tokens:,} generated tokens, {jobs} at once,"
        f" evaluated {spec.evaluations + 1} times each",
    )
    rows: list[list[Piece]] = [
        [name, f"{plan.total / 1e9:.2f} GB", f"{plan.steps:,}"] for name, plan in plans.items()
    ]
    columns = [Column("run"), Column("memory", right=True), Column("steps or more", right=True)]
    page.table(columns, rows)
    page.line("folder: ", (str(folder), NAME))


def show_results(page: Page, results: StudyResults) -> None:
    """The table, and runs that are no part of it."""
    for cell in results.cells:
        if cell.status != "done":
            page.line((f"{cell.status}: ", WARN), cell.name, f": {cell.message or 'not done'}")
    if not results.trainers:
        return
    against = {(d.task, d.trainer): d for d in results.differences}
    titles = ["suite", "trainer", "seeds", "before", f"at {results.tokens:,} tokens", "on the way"]
    titles += ["tokens to level", f"less {results.cells[0].trainer}"]
    rows: list[list[Piece]] = []
    for found in results.trainers:
        rows.append(
            [
                found.task,
                (found.trainer, NAME),
                str(len(found.seeds)),
                f"{found.curve[0].mean:.2f}",
                _interval(found.curve[-1]),
                f"{found.on_the_way.mean:.2f}",
                told_tokens(found),
                _difference(against.get((found.task, found.trainer))),
            ]
        )
    page.line()
    ranks = {"on the way": 4, "before": 3, "seeds": 2, "tokens to level": 1}
    columns = [
        Column(title, right=number > 1, rank=ranks.get(title, 0))
        for number, title in enumerate(titles)
    ]
    page.table(columns, rows)
    for over_all in (d for d in results.differences if d.task is None):
        page.line(
            f"all suites, {over_all.trainer} less {over_all.baseline}: {over_all.end.mean:+.1%}"
            f" of the largest value ({_limits(over_all.end, '+.1%')},"
            f" {counted(over_all.pairs, 'pair')})"
        )
    measured = "share solved" if results.measure == "solved" else "return"
    page.line((f"held-out {measured}; 95 % intervals over seeds, pairs share a seed", DIM))


def _interval(value: OverSeeds) -> str:
    return f"{value.mean:.2f} ({_limits(value, '.2f')})"


def _limits(value: OverSeeds, form: str) -> str:
    if value.interval is None:
        return value.without_interval
    low, high = value.interval
    return f"{low:{form}} to {high:{form}}"


def _difference(found: Difference | None) -> Piece:
    if found is None:
        return "-"
    low, high = found.end.interval or (0.0, 0.0)
    tone = GOOD if low > 0 else BAD if high < 0 else ""
    return (f"{found.end.mean:+.2f} ({_limits(found.end, '+.2f')})", tone)
