"""`collab report`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from collab.cli.options import complete_runs
from collab.runs.layout import REPORT
from collab.wording import counted


def command(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="Folders of runs, training runs or evaluations.",
            autocompletion=complete_runs,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Default: report.html in the run's folder, or here for several runs.",
        ),
    ] = None,
    episodes: Annotated[
        int | None,
        typer.Option("--episodes", metavar="N", min=1, help="Most episodes. Default: 2000."),
    ] = None,
    browse: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Write one HTML file about runs: curves, comparisons, and every episode.

    The file needs no network. Runs of one recipe with several seeds are drawn
    as one, with the band of the seeds. Runs that were interrupted or killed are
    shown as far as they came.

    [bold]Examples[/]
      collab report runs/20260101-120000-000-coding --open
      collab report runs/seed-0 runs/seed-1 runs/seed-2 --out seeds.html
    """
    from collab.report import MOST_EPISODES, write_report

    single = len(runs) == 1 and runs[0].is_dir()
    target = out or (runs[0] / REPORT if single else Path(REPORT))
    report = write_report(runs, target, most=episodes or MOST_EPISODES)
    for note in report.notes:
        print(f"warning: {note}", file=sys.stderr)
    size = target.stat().st_size
    print(f"{target}: {counted(len(report.shown), 'episode')}, {size / 1e6:.1f} MB")
    if browse:
        import webbrowser

        webbrowser.open(target.resolve().as_uri())
