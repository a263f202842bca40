"""`collab watch`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from collab.cli.options import Json, complete_runs

if TYPE_CHECKING:
    from collab.cli.live.views import View

Watched = Annotated[
    Path,
    typer.Argument(
        metavar="RUN",
        help="The folder of a run, a training or an evaluation.",
        autocompletion=complete_runs,
    ),
]


def command(run: Watched, *, json: Json = False) -> None:
    """Follow a run, a training or an evaluation that another process does.

    Its files are read and nothing of it is touched. The screen is that of the
    process itself, and ends when the run ends; Ctrl-C ends only the watching.
    Where the process is gone, that is said.

    [bold]Examples[/]
      collab watch runs/20260101-120000-000-coding
      collab watch evals/first
      collab watch runs/first --json | jq -r .type

    Exit status: 0 the run is done, 1 it failed, was interrupted or killed,
    2 the folder is not a run's.
    """
    from collab.cli.live.live import LiveView
    from collab.cli.live.recorded import how_it_ended
    from collab.runs.at_work import KILLED
    from collab.runs.layout import TRAINING

    view, events = _opened(run, json=json)
    if isinstance(view, LiveView):
        view.watching = True
    try:
        for event in events:
            view.see(event)
    finally:
        view.close()
    status = how_it_ended(run)
    if status == KILLED:
        remedy = f"; go on with collab train --resume {run}" if (run / TRAINING).is_file() else ""
        print(f"{run} was killed: its process is gone{remedy}", file=sys.stderr)
    elif status != "done":
        print(f"{run}: {status}", file=sys.stderr)
    raise typer.Exit(int(status != "done"))


def _opened(run: Path, *, json: bool) -> tuple[View[Any], Iterator[Any]]:
    """The view that suits the kind of run, and its events."""
    from collab.cli.live import recorded
    from collab.cli.live.evaluating import EvaluationReport, LiveEvaluation
    from collab.cli.live.running import LiveRun, RunReport
    from collab.cli.live.training import LiveTraining, TrainingReport
    from collab.cli.live.views import open_view
    from collab.evaluation.folder import is_evaluation
    from collab.runs.about import read_about

    if is_evaluation(run):
        found = open_view(EvaluationReport, LiveEvaluation, json=json)
        return found, recorded.follow_evaluation(run)
    read_about(run)
    if recorded.is_training(run):
        training = open_view(TrainingReport, LiveTraining, json=json)
        return training, recorded.follow_training(run)
    return open_view(RunReport, LiveRun, json=json), recorded.follow_run(run)
