"""`collab view`."""

from __future__ import annotations

from pathlib import Path

from collab.cli.options import argument, flag, option
from collab.errors import RecordError
from collab.runs.layout import DEFAULT_FOLDERS

_FOLDERS_TEXT = ", ".join(f"{place}/" for place in DEFAULT_FOLDERS)


def command(
    folder: Path | None = argument(
        "FOLDER", f"A folder of runs. Default: {_FOLDERS_TEXT} here.", default=None
    ),
    port: int = option(
        "--port", "PORT", "Port to listen on; 0 picks a free port.", min=0, max=65535, default=8765
    ),
    browse: bool = flag("--open", "Open the page in the browser."),
) -> None:
    """Show runs in the browser: list, filter, compare and follow them.

    Only this machine can open the page, and it shows nothing outside the folder.
    Ctrl-C stops the server. The command needs the extra `serve`.

    Examples:
      collab view
      collab view studies/first --port 0 --open
    """
    from collab.view.server import serve

    if folder is not None and not folder.is_dir():
        raise RecordError(f"{folder} is not a folder; omit it to show {_FOLDERS_TEXT}")

    def on_start(address: str) -> None:
        print(f"{address} shows the runs in {folder or _FOLDERS_TEXT}; Ctrl-C stops it", flush=True)
        if browse:
            import webbrowser

            webbrowser.open(address)

    serve([folder] if folder else [Path(place) for place in DEFAULT_FOLDERS], port, on_start)
