"""The server: one socket, time limits for slow clients, and a shutdown that lets answers finish."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from collab.errors import RecipeError
from collab.serving.service import Service
from collab.signals import ending_signals

_HEADER_BYTES = 16_384
_HEADER_SECONDS = 20.0
_LOOK_SECONDS = 10.0
"""Seconds between two looks at the unsent rest of an answer."""
_KEPT_SECONDS = 5
"""Seconds that an idle connection stays open for a further request."""
_CONNECTIONS = 256
"""Connections in addition to those of the lanes and the queue."""


def bind(host: str, port: int) -> socket.socket:
    """Open a listening socket at that address; port 0 takes any free port.

    Raises:
        RecipeError: the address is taken, or does not belong to this machine.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with ExitStack() as on_failure:
            listener = on_failure.enter_context(socket.socket(family))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(2048)  # whoever comes before the first request is read waits
            on_failure.pop_all()
            return listener
    except OSError as error:
        reason = error.strerror or str(error)
        raise RecipeError(
            f"cannot listen at {host}:{port}: {reason}; give another --host or --port"
        ) from error


async def serve(app: ASGIApp, service: Service, listener: socket.socket, drain: float) -> None:
    """Answer until SIGTERM, SIGINT or SIGHUP, then up to `drain` seconds for requests in progress.

    A second signal ends it at once.
    """
    config = uvicorn.Config(
        app,
        http=_Patient,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        h11_max_incomplete_event_size=_HEADER_BYTES,
        limit_concurrency=_CONNECTIONS + service.lanes.places,
        timeout_keep_alive=_KEPT_SECONDS,
        timeout_graceful_shutdown=5,
    )
    server = _Server(config, service, drain)
    await server.serve(sockets=[listener])


class _Server(uvicorn.Server):
    """A server that drains its service before it closes its connections."""

    should_exit: bool

    def __init__(self, config: uvicorn.Config, service: Service, drain: float) -> None:
        super().__init__(config)
        self._service, self._drain = service, drain
        self._draining_since: float | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """The first signal begins to drain, the second one ends it."""
        if self._service.is_ready:
            self._service.drain()
        else:
            self._drain = 0.0

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """While entered, handle signals here; they are not raised again afterwards."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {n: signal.signal(n, self.handle_exit) for n in ending_signals()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def on_tick(self, counter: int) -> bool:
        """Return True if it is time to stop."""
        if not self._service.is_ready and not self.should_exit:
            now = asyncio.get_running_loop().time()
            self._draining_since = now if self._draining_since is None else self._draining_since
            if self._service.lanes.is_idle or now - self._draining_since >= self._drain:
                self._service.shut.set()
                self.should_exit = True
        return await super().on_tick(counter)


class _Patient(H11Protocol):
    """A connection with time limits, for sending its headers and for reading the last answer."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._limit: asyncio.TimerHandle | None = None
        self._looking: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()
        self._look(before=0)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        if self._looking is not None:
            self._looking.cancel()
        super().connection_lost(exc)

    def _wait(self) -> None:
        """Limit the time for headers."""
        if self.conn.their_state is not h11.IDLE:
            self._stop()
        elif self._limit is None:
            self._limit = self.loop.call_later(_HEADER_SECONDS, self._give_up)

    def _stop(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _give_up(self) -> None:
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()

    def _look(self, before: int) -> None:
        """Close the connection if it is ending and its client reads nothing more.

        A normal close waits until the client has read the rest, which may be never; `before` is the
        rest at the last look.
        """
        left = self.transport.get_write_buffer_size() if self.transport.is_closing() else 0
        if left and left == before:
            self.transport.abort()
        else:
            self._looking = self.loop.call_later(_LOOK_SECONDS, self._look, left)
