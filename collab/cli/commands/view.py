"""`collab view`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from collab.errors import RecordError
from collab.runs.layout import PLACES


def command(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FOLDER]", help="A folder of runs. Default: runs/, evals/ and studies/ here."
        ),
    ] = None,
    port: Annotated[
        int,
        typer.Option("--port", metavar="PORT", min=0, max=65535, help="0 for a free one."),
    ] = 8765,
    browse: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Show runs in the browser: list, filter, compare, and follow those at work.

    The page is served to this machine only, and shows what is in the folder and
    nothing else. Ctrl-C ends it. It needs the packages of the extra `serve`.

    [bold]Examples[/]
      collab view
      collab view studies/first --port 0 --open
    """
    from collab.view import serve

    if folder is not None and not folder.is_dir():
        raise RecordError(f"{folder} is no folder; runs are in runs/ or where --out said")

    def on_start(address: str) -> None:
        shown = str(folder) if folder else ", ".join(f"{place}/" for place in PLACES)
        print(f"{address} shows the runs in {shown}; Ctrl-C ends it", flush=True)
        if browse:
            import webbrowser

            webbrowser.open(address)

    serve([folder] if folder else [Path(place) for place in PLACES], port, on_start)
