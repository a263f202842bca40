"""An HTTP server on this machine, in a thread."""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


class LocalServer:
    """Serves within its `with` block; subclasses answer with `get` and `post`."""

    def __init__(self, port: int = 0) -> None:
        self.closing = threading.Event()
        self._server = _Server(("127.0.0.1", port), Handler)
        self._server.owner = self  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.closing.set()
        self._server.shutdown()
        self._thread.join()
        self.shut()

    def shut(self) -> None:
        """Stop listening."""
        self._server.server_close()

    def get(self, handler: Handler) -> None:
        handler.send(404)

    def post(self, handler: Handler) -> None:
        handler.send(404)


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore canceled clients, which close the connection early."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """One request."""

    def do_HEAD(self) -> None:
        self._owner.get(self)

    def do_GET(self) -> None:
        self._owner.get(self)

    def do_POST(self) -> None:
        self._owner.post(self)

    @property
    def _owner(self) -> LocalServer:
        return self.server.owner  # type: ignore[attr-defined, no-any-return]

    def log_message(self, *_: Any) -> None:
        """Keep the test's output clean."""

    def send(self, status: int, content: bytes = b"", **headers: str) -> None:
        """Send a complete response; underscores in header names become hyphens."""
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()

    def event(self, data: Any, kind: str = "") -> None:
        """Send one event of a stream: text unchanged, other data as JSON."""
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
        name = f"event: {kind}\n" if kind else ""
        self.wfile.write(f"{name}data: {text}\n\n".encode())
        self.wfile.flush()
