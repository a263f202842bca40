"""The server: one socket, and a shutdown that lets answers finish."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from collab.errors import RecipeError
from collab.serving.service import Service
from collab.signals import ending_signals

_HEADER_BYTES = 16_384
_KEEP_ALIVE_SECONDS = 5
_SPARE_CONNECTIONS = 256
"""Connections in addition to those of the running episodes and the queue."""


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address. Port 0 takes any free port.

    Raises:
        RecipeError: the address is taken, or does not belong to this machine.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        dual = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        # early clients wait until the first request is read
        return socket.create_server((host, port), family=family, backlog=2048, dualstack_ipv6=dual)
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (while")[0]  # repeats the address
        raise RecipeError(
            f"cannot listen at {host}:{port}: {reason}; choose another --host or --port"
        ) from error


async def serve(app: ASGIApp, service: Service, listener: socket.socket, drain: float) -> None:
    """Answer until SIGTERM, SIGINT or SIGHUP, then up to `drain` seconds for requests in progress.

    A second signal ends the server at once.
    """
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        h11_max_incomplete_event_size=_HEADER_BYTES,
        limit_concurrency=_SPARE_CONNECTIONS + service.queue.places,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
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
        """Begin to drain at the first signal, and end the drain at the second one."""
        if self._service.is_ready:
            self._service.drain()
        else:
            self._drain = 0.0

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Context manager that handles signals here, and does not raise them again afterwards."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        previous = {n: signal.signal(n, self.handle_exit) for n in ending_signals()}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    async def on_tick(self, counter: int) -> bool:
        """Return True if it is time to stop."""
        if not self._service.is_ready and not self.should_exit:
            now = asyncio.get_running_loop().time()
            self._draining_since = now if self._draining_since is None else self._draining_since
            if self._service.queue.is_idle or now - self._draining_since >= self._drain:
                self._service.shut_down.set()
                self.should_exit = True
        return await super().on_tick(counter)
