"""Follows a run, a training run or an evaluation while it is running."""

from __future__ import annotations

from typing import TYPE_CHECKING

from collab.cli.screen.page import TerminalPage, open_page

if TYPE_CHECKING:
    from collab.cli.live.view import View


def open_view(*, json: bool) -> View:
    """Return a view for stdout: JSON lines, a live report on a terminal, or a plain report."""
    from collab.cli.live.view import JsonView, TextView

    if json:
        return JsonView()
    page = open_page()
    if not isinstance(page, TerminalPage):
        return TextView(page)
    from collab.cli.live.progress import LiveView

    return LiveView(page)
