"""The command line: one thin file per command, imported when it runs."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run `collab` as a command, which always ends by SystemExit."""
    from collab.cli.app import app

    app()
