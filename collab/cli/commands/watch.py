"""`collab watch`."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from collab.cli.options import JSON, argument, complete_runs


def command(
    run: Path = argument(
        "RUN", "The folder of a run, training run or evaluation.", autocompletion=complete_runs
    ),
    *,
    json: bool = JSON,
) -> None:
    """Follow a run or an evaluation that another process started.

    The command only reads the run's files. It ends when the run ends or its
    process no longer exists. Ctrl-C stops only this command, not the run.

    Examples:
      collab watch runs/20260101-120000-000-coding
      collab watch evals/first
      collab watch runs/first --json | jq -r .type

    Exit status: 0 the run finished, 1 it failed, was interrupted or killed,
    2 the folder contains no run.
    """
    from collab.cli.live import open_view
    from collab.cli.live.recorded import follow, how_it_ended
    from collab.runs.about import KILLED, how_to_resume

    events = follow(run)
    view = open_view(json=json)
    try:
        for event in events:
            view.see(event)
    finally:
        view.close()
    status = how_it_ended(run)
    if status == KILLED:
        print(
            f"{run} was killed: its process no longer exists{how_to_resume(run)}", file=sys.stderr
        )
    elif status != "done":
        print(f"{run}: {status}", file=sys.stderr)
    raise typer.Exit(int(status != "done"))
