"""`collab push`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from collab.cli.options import complete_runs

Run = Annotated[
    Path,
    typer.Argument(
        metavar="RUN",
        help="The folder of a run or a training.",
        autocompletion=complete_runs,
    ),
]
To = Annotated[str, typer.Option("--to", metavar="OWNER/NAME", help="The repository on the hub.")]
Licence = Annotated[
    str | None,
    typer.Option("--licence", "--license", metavar="NAME", help="Of the team, e.g. apache-2.0."),
]
Public = Annotated[
    bool, typer.Option("--public", help="For all to see; without, a new repository is private.")
]
Staged = Annotated[
    bool, typer.Option("--dry-run", help="Send nothing; leave the folder to look at.")
]
Folder = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Of --dry-run. Default: push/OWNER-NAME."),
]


def command(
    run: Run,
    to: To,
    *,
    licence: Licence = None,
    public: Public = False,
    dry_run: Staged = False,
    out: Folder = None,
) -> None:
    """Send a team to the Hugging Face hub, with a card made from its record.

    Sent are the recipe, its functions and data, the adapters or models, and
    README.md: agents, base models, task, results with intervals, how to use it.
    Episodes stay here. HF_TOKEN, or hf auth login, says who you are.

    [bold]Examples[/]
      collab push runs/first --to me/first --licence apache-2.0 --dry-run
      collab push runs/first --to me/first --licence apache-2.0
      collab run hub:me/first --task humaneval/140

    Exit status: 0 done, 1 the hub did not take it, 2 bad usage.
    """
    import tempfile

    from collab.sharing.push import check_repository, push
    from collab.sharing.staging import stage

    check_repository(to)
    if dry_run:
        folder = out or Path("push") / to.replace("/", "-")
        _tell(stage(run, folder, repository=to, licence=licence))
        print(f"{folder}: this is what would be sent to {to}")
        return
    with tempfile.TemporaryDirectory() as place:
        _tell(stage(run, Path(place), repository=to, licence=licence))
        name = push(Path(place), to, private=not public)
    print(f"sent; use it as: collab run {name}")


def _tell(notes: list[str]) -> None:
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
