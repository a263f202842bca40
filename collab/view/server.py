"""The server of `collab view`: it answers only this machine, by its own names, and only reads."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from threading import Lock
from types import FrameType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from collab.distribution import import_optional
from collab.errors import CollabError, RecipeError, RecordError
from collab.report.page import Updates, fill_page
from collab.report.report import make_page, make_report
from collab.report.runs import read_runs
from collab.runs.about import RUNNING
from collab.runs.layout import (
    ADAPTERS,
    CHECKPOINTS,
    EPISODES,
    EVAL,
    EVALUATION,
    FUNCTIONS,
    METRICS,
    MODELS,
    RUN,
)
from collab.runs.listing import find_run_files, newest_first, run_row
from collab.wording import escape_controls

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp


GROWING_FILES = (RUN, EPISODES, METRICS, EVALUATION, EVAL)
"""Files that are written while a run is at work."""

UNREAD_FOLDERS = (ADAPTERS, MODELS, CHECKPOINTS, FUNCTIONS)


class UnknownRun(RecordError):
    """There is no such run under the folders."""


MAX_CACHED_REPORTS = 8
"""Number of reports that are kept, each for its runs as they were."""

STYLES = ("base", "frame", "head", "list", "episode", "media", "collab.view:runs")
SCRIPTS = ("dom", "sorted", "collab.view:runs")


class Pages:
    """Some folders, the runs in them, and the pages about the runs. A run is named by its name in
    the list, never by a path.
    """

    def __init__(self, roots: Sequence[Path]) -> None:
        self._roots = [root.resolve() for root in roots]
        self._cached_page = lru_cache(MAX_CACHED_REPORTS)(self._make_page)
        self._lock = Lock()

    def runs(self) -> str:
        """Return the page with the list of runs. Its script requests the rows."""
        return fill_page("collab.view:runs", STYLES, SCRIPTS, may_connect=True)

    def rows(self) -> list[dict[str, Any]]:
        """Return a row per run, newest first, with control characters escaped."""
        listed = {name: run_row(folder) for name, folder in self._runs().items()}
        rows = []
        for name in sorted(listed, key=lambda name: newest_first(listed[name])):
            evaluation = _parent(name) if listed[name].kind == "evaluation" else None
            row = {**listed[name].data(), "folder": name, "evaluation": evaluation}
            shown = {k: escape_controls(v) if isinstance(v, str) else v for k, v in row.items()}
            rows.append({**shown, "name": name})
        return rows

    def find(self, names: Sequence[str]) -> list[Path]:
        """Return the folders of runs and evaluations with these names.

        Raises:
            UnknownRun: a run is missing, or a link in it leads out of the folders.
        """
        if not names:
            raise UnknownRun("no run given; choose one from the list")
        known = self._runs()
        known |= {_parent(name): folder.parent for name, folder in known.items()
                  if (folder.parent / EVAL).is_file()}  # fmt: skip
        for name in names:
            if name not in known:
                raise UnknownRun(
                    f"there is no run {name!r} in these folders; choose one from the list"
                )
            self._check_links(name, known[name])
        return [known[name] for name in dict.fromkeys(names)]

    def stamp(self, names: Sequence[str]) -> dict[str, Any]:
        """Return a stamp of the files, and whether a run is in progress, for a page that checks for
        changes.
        """
        files = [file for folder in self.find(names) for file in _growing_files(folder)]
        stamps = [f"{stat.st_size}.{stat.st_mtime_ns}" for file in files if (stat := file.stat())]
        rows = [run_row(file.parent) for file in files if file.name == RUN]
        return {"stamp": "-".join(stamps), "working": any(r.status == RUNNING for r in rows)}

    def report(self, names: Sequence[str]) -> str:
        """Return the report of the runs with these names, on a page that follows them."""
        stamp = self.stamp(names)["stamp"]
        with self._lock:
            return self._cached_page(tuple(names), stamp)

    def _make_page(self, names: Sequence[str], stamp: str) -> str:
        updates = Updates(f"/stamp?{urlencode([('run', name) for name in names])}", stamp)
        try:
            reading = read_runs(self.find(names))
        except CollabError as error:
            return self.message("Nothing to show yet", str(error), updates)
        return make_page(make_report(reading), reading.runs, updates)

    def message(self, title: str, text: str, updates: Updates | None = None) -> str:
        """Return a page that shows a message."""
        styles, scripts = ("base", "frame", "media"), ("dom", "collab.view:message")
        return fill_page(
            "collab.view:message", styles, scripts, updates=updates, title=title, text=text
        )

    def _runs(self) -> dict[str, Path]:
        return {
            self._name(root, file.parent): file.parent
            for root in self._roots
            for file in find_run_files(root)
            if _is_within(file, root)
        }

    def _name(self, root: Path, folder: Path) -> str:
        name = folder.relative_to(root)
        path = (root.name / name if len(self._roots) > 1 else name).as_posix()
        # A folder's name may contain bytes that are not text, which a page cannot hold.
        return path.encode(errors="backslashreplace").decode()

    def _check_links(self, name: str, folder: Path) -> None:
        """Raise UnknownRun if a link leads outside the folders."""
        root = next(root for root in self._roots if folder.is_relative_to(root))
        for path in _report_files(folder):
            if path.is_symlink() and not _is_within(path, root):
                raise UnknownRun(f"{name}: {path.name} is a link to a place outside {root.name}/")


def _report_files(folder: Path) -> Iterator[Path]:
    """Yield all files that a report may read of a run or an evaluation."""
    for path in folder.iterdir():
        yield path
        if path.is_dir() and not path.is_symlink() and path.name not in UNREAD_FOLDERS:
            yield from _report_files(path)


def _growing_files(folder: Path) -> list[Path]:
    files = [folder / name for name in GROWING_FILES]
    files += [
        path / name for path in sorted(folder.iterdir()) if path.is_dir() for name in GROWING_FILES
    ]
    return [file for file in files if file.is_file()]


def _is_within(path: Path, root: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(root)  # `resolve` refuses links in a circle


def _parent(name: str) -> str:
    return name.rpartition("/")[0] or "."


HOST = "127.0.0.1"
ALLOWED_HOSTS = ["127.0.0.1", "localhost"]
"""Host names that this server answers to. Other names may belong to anyone."""

HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def application(folders: Sequence[Path]) -> ASGIApp:
    """Return the ASGI application that shows the runs in some folders, and reads nothing else."""
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.responses import HTMLResponse, JSONResponse, Response
    from starlette.routing import Route

    pages = Pages(folders)

    def runs(_: Request) -> Response:
        return HTMLResponse(pages.runs())

    def report(request: Request) -> Response:
        return HTMLResponse(pages.report(request.query_params.getlist("run")))

    def rows(_: Request) -> Response:
        return JSONResponse(pages.rows())

    def stamp(request: Request) -> Response:
        return JSONResponse(pages.stamp(request.query_params.getlist("run")))

    def icon(_: Request) -> Response:
        return Response(status_code=204)

    def no_run(request: Request, error: Exception) -> Response:
        if request.url.path == "/stamp":
            return JSONResponse({"error": escape_controls(str(error))}, 404)
        return HTMLResponse(pages.message("No such run", str(error)), 404)

    paths = {"/": runs, "/report": report, "/runs": rows, "/stamp": stamp, "/favicon.ico": icon}
    return Starlette(
        routes=[Route(path, answer, methods=["GET"]) for path, answer in paths.items()],
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=ALLOWED_HOSTS, www_redirect=False)
        ],
        exception_handlers={UnknownRun: no_run},
    )


def serve(folders: Sequence[Path], port: int, on_start: Callable[[str], None]) -> None:
    """Answer until SIGINT or SIGTERM, after calling `on_start` with the address.

    Raises:
        RecipeError: the port is taken, or packages are missing.
    """
    for package in ("starlette", "uvicorn"):
        import_optional(package, "collab view", "serve", RecipeError)
    import uvicorn

    from collab.serving.server import bind

    class Server(uvicorn.Server):
        should_exit: bool

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
            """End the server without raising the signal again. Either signal is an intended end."""
            self.should_exit = True

    with bind(HOST, port) as listener:
        config = uvicorn.Config(
            application(folders),
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            headers=[*HEADERS.items()],
            timeout_graceful_shutdown=2,
        )
        on_start(f"http://{HOST}:{listener.getsockname()[1]}/")
        with suppress(KeyboardInterrupt):
            Server(config).run(sockets=[listener])
