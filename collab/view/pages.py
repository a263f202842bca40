"""What is answered: the list, and reports made anew whenever their runs have gone on."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import Any
from urllib.parse import urlencode

from collab.errors import CollabError
from collab.report.page import Follows, fill
from collab.report.reading import read_all
from collab.report.report import make_page, make_report
from collab.report.texts import visible
from collab.view.folders import Folders

KEPT = 8
"""Reports that are kept while their runs stay as they are."""

STYLES = ("base", "frame", "head", "list", "episode", "media", "collab.view:runs")
SCRIPTS = ("dom", "theme", "collab.view:runs")


class Pages:
    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self._made: OrderedDict[tuple[str, ...], tuple[str, str]] = OrderedDict()
        """By the runs' names: the stamp that they had, and the page."""
        self._one = Lock()

    def runs(self) -> str:
        """The page with the list, which asks for its rows."""
        return fill("collab.view:runs", STYLES, SCRIPTS, connects=True)

    def rows(self) -> list[dict[str, Any]]:
        """The rows of the list, in which no text steers what is around it."""
        return [
            {key: visible(value) if isinstance(value, str) and key != "name" else value
             for key, value in row.items()}
            for row in self._folders.rows()
        ]  # fmt: skip

    def stamp(self, names: Sequence[str]) -> dict[str, Any]:
        """What a report's page asks for, again and again.

        Raises:
            NoRun: one of them is not there.
        """
        stamp, working = self._folders.stamp(names)
        return {"stamp": stamp, "working": working}

    def report(self, names: Sequence[str]) -> str:
        """The report of some runs, on one page that follows them.

        Raises:
            NoRun: one of them is not there.
        """
        key = tuple(names)
        stamp, _ = self._folders.stamp(names)
        with self._one:
            found = self._made.get(key)
            if found is None or found[0] != stamp:
                self._made[key] = found = (stamp, self._make(names, stamp))
            self._made.move_to_end(key)
            while len(self._made) > KEPT:
                self._made.popitem(last=False)
        return found[1]

    def _make(self, names: Sequence[str], stamp: str) -> str:
        follows = Follows(f"/stamp?{urlencode([('run', name) for name in names])}", stamp)
        try:
            reading = read_all(self._folders.find(names))
        except CollabError as error:
            return self.message("Nothing to show yet", str(error), follows)
        return make_page(make_report(reading), reading.runs, follows)

    def message(self, title: str, text: str, follows: Follows | None = None) -> str:
        """A page that says why there is no other one."""
        scripts = ("dom", "theme", "collab.view:message", *(["follow"] if follows else []))
        return fill(
            "collab.view:message",
            ("base", "frame", "media"),
            scripts,
            connects=bool(follows),
            title=title,
            text=text,
            follows=follows,
        )
