"""The page that suits where the output leads."""

from __future__ import annotations

import sys
from typing import TextIO

from collab.cli.screen.plain import PlainPage
from collab.cli.screen.terminal import TerminalPage


def open_page(stream: TextIO | None = None) -> PlainPage | TerminalPage:
    """A page on stdout, or on another stream."""
    stream = stream or sys.stdout
    if not stream.isatty():
        return PlainPage(stream)
    from rich.console import Console

    beneath = getattr(stream, "beneath", stream)  # a page's own escapes are to get through
    return TerminalPage(Console(file=beneath, highlight=False, markup=False, emoji=False))
