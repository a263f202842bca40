"""The server: this machine only, this server's names only, and nothing but reading."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from collab.distribution import install
from collab.errors import RecipeError
from collab.report.texts import visible
from collab.view.folders import Folders, NoRun
from collab.view.pages import Pages

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

HOST = "127.0.0.1"
NAMES = ("127.0.0.1", "localhost")
"""Names that this server answers to: a page of another name that leads here may be anyone's."""

HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def check_installed() -> None:
    """Raise RecipeError where the packages of the extra `serve` are missing."""
    for package in ("starlette", "uvicorn"):
        try:
            import_module(package)
        except ImportError as error:
            raise RecipeError(
                f"collab view needs the package {package}, which is not installed; install it with"
                f" {install('serve')}"
            ) from error


def application(folders: Sequence[Path]) -> ASGIApp:
    """The ASGI application that shows the runs in some folders, and reads nothing else."""
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.responses import HTMLResponse, JSONResponse, Response
    from starlette.routing import Route

    pages = Pages(Folders(folders))

    def page(make: Callable[[], str]) -> Response:
        try:
            return HTMLResponse(make(), headers=HEADERS)
        except NoRun as error:
            return HTMLResponse(pages.message("No such run", str(error)), 404, headers=HEADERS)

    def runs(_: Request) -> Response:
        return page(pages.runs)

    def report(request: Request) -> Response:
        return page(lambda: pages.report(request.query_params.getlist("run")))

    def rows(_: Request) -> Response:
        return JSONResponse(pages.rows(), headers=HEADERS)

    def stamp(request: Request) -> Response:
        try:
            return JSONResponse(pages.stamp(request.query_params.getlist("run")), headers=HEADERS)
        except NoRun as error:
            return JSONResponse({"error": visible(str(error))}, 404, headers=HEADERS)

    def icon(_: Request) -> Response:
        return Response(status_code=204, headers=HEADERS)

    routes = [
        Route("/", runs, methods=["GET"]),
        Route("/report", report, methods=["GET"]),
        Route("/runs", rows, methods=["GET"]),
        Route("/stamp", stamp, methods=["GET"]),
        Route("/favicon.ico", icon, methods=["GET"]),
    ]
    ours = Middleware(TrustedHostMiddleware, allowed_hosts=list(NAMES), www_redirect=False)
    return Starlette(routes=routes, middleware=[ours])


def serve(folders: Sequence[Path], port: int, on_start: Callable[[str], None]) -> None:
    """Answer until SIGINT or SIGTERM; `on_start` is told the address.

    Raises:
        RecipeError: the port is taken, or packages are missing.
    """
    check_installed()
    import uvicorn

    from collab.serving.http.server import bind

    class Server(uvicorn.Server):
        should_exit: bool

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
            """Either signal is how it is meant to end, so that it is not raised again."""
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
            timeout_graceful_shutdown=2,
        )
        on_start(f"http://{HOST}:{listener.getsockname()[1]}/")
        with suppress(KeyboardInterrupt):
            Server(config).run(sockets=[listener])
