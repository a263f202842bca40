"""`collab diff`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from collab.cli.arguments import completion
from collab.cli.arguments.options import Json

First = Annotated[
    Path,
    typer.Argument(
        metavar="A", help="The folder of a run or evaluation.", autocompletion=completion.runs
    ),
]
Second = Annotated[
    Path,
    typer.Argument(
        metavar="B", help="The folder to compare it with.", autocompletion=completion.runs
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
    from collab.cli.screen.diff import show_diff
    from collab.cli.screen.streams import json_text
    from collab.cli.screen.terminal import open_page
    from collab.evaluation.diff import diff

    for found in diff(first, second):
        if json:
            print(json_text(found))
        else:
            show_diff(open_page(), found)
