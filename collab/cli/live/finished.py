"""Showing a training that has nothing left to do."""

from __future__ import annotations

import sys
from pathlib import Path

from collab.cli.live.training import TrainingReport
from collab.cli.live.views import JsonView
from collab.cli.screen.terminal import open_page
from collab.recipe import Recipe
from collab.runtime.events import RunFinished
from collab.trainers.training.folder import TrainingFolder


def show_finished(recipe: Recipe, run: Path, *, json: bool) -> bool:
    """Show the result of a run that this recipe has finished; returns True if so."""
    summary = TrainingFolder.finished(run, recipe)
    if summary is None:
        return False
    print(f"{run} is finished; train on with --set trainer.steps=N", file=sys.stderr)
    view = JsonView() if json else TrainingReport(open_page(), folder=str(run))
    view.see(RunFinished(run=run.name, status="done", summary=summary))
    return True
