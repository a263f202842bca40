"""Runs on the terminal, a row each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from collab.cli.screen.episode import out_of
from collab.cli.screen.page import BAD, GOOD, WARN, Column, Page, Piece
from collab.runs.at_work import KILLED, RUNNING
from collab.runs.listing import Listed

_TONES = {"done": "", RUNNING: GOOD, KILLED: BAD, "failed": BAD, "interrupted": WARN}
_COLUMNS = (
    Column("run"),
    Column("began", right=True, rank=5),
    Column("kind", rank=3),
    Column("team", rank=4),
    Column("task", rank=2),
    Column("status", wrap=True),
    Column("return", right=True),
    Column("solved", right=True),
)


def show_runs(page: Page, runs: Sequence[Listed]) -> None:
    """The table; on a terminal that is too narrow, what names also tell is left out first."""
    page.table(_COLUMNS, [_row(run) for run in runs])


def _row(run: Listed) -> list[Piece]:
    earned, solved = run.outcome.mean_return, run.outcome.solved
    return [
        run.folder,
        f"{run.began:%Y-%m-%d %H:%M}",
        run.kind,
        run.team,
        run.task,
        (run.status, _TONES.get(run.status, WARN)),
        "-" if earned is None else out_of(earned, run.outcome.largest_return),
        "-" if solved is None else f"{solved:.0%}",
    ]


def as_data(run: Listed) -> dict[str, Any]:
    """A row as `--json` gives it."""
    row = asdict(run)
    return {**row, **row.pop("outcome"), "began": run.began.isoformat(timespec="seconds")}
