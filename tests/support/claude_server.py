"""A local server that speaks the Messages API, and everything that can go wrong with it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


class ClaudeServer:
    """Answers the n-th request by the n-th behaviour, and all later ones by the last.

    Behaviours are made by `answer`, `status`, `slow`, `malformed`, `cut` and `stream_error`.
    `bodies` and `keys` hold what was sent.
    """

    def __init__(self, *behaviours: Behaviour) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.most_at_once = 0
        self.closing = threading.Event()
        self._behaviours = list(behaviours)
        self._lock = threading.Lock()
        self._at_once = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.owner = self  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

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
        self._server.server_close()
        self._thread.join()

    def serve(self, handler: _Handler) -> None:
        length = int(handler.headers.get("content-length", 0))
        with self._lock:
            number = len(self.bodies)
            self.bodies.append(json.loads(handler.rfile.read(length)))
            self.keys.append(_key(handler))
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            self._behaviours[min(number, len(self._behaviours) - 1)](handler, self)
        finally:
            with self._lock:
                self._at_once -= 1


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.server.owner.serve(self)  # type: ignore[attr-defined]

    def log_message(self, *_: Any) -> None:
        """Keep the test's output clean."""

    def begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()

    def event(self, kind: str, **data: Any) -> None:
        payload = json.dumps({"type": kind, **data})
        self.wfile.write(f"event: {kind}\ndata: {payload}\n\n".encode())
        self.wfile.flush()


Behaviour = Callable[[_Handler, ClaudeServer], None]


def answer(
    text: str,
    *,
    stop_reason: str = "end_turn",
    prompt_tokens: int = 12,
    new_tokens: int = 5,
    cache_read: int = 0,
    cache_written: int = 0,
    seconds: float = 0.0,
) -> Behaviour:
    """Stream `text` word by word."""

    def behave(handler: _Handler, server: ClaudeServer) -> None:
        server.closing.wait(seconds)
        handler.begin_stream()
        _start(handler, prompt_tokens, cache_read, cache_written)
        for word in text.splitlines(keepends=True) or [""]:
            _delta(handler, word)
        handler.event("content_block_stop", index=0)
        handler.event(
            "message_delta",
            delta={"stop_reason": stop_reason, "stop_sequence": None},
            usage={"output_tokens": new_tokens},
        )
        handler.event("message_stop")

    return behave


def status(
    code: int, kind: str = "api_error", message: str = "trouble", retry_after: str | None = None
) -> Behaviour:
    """An error status with the API's error body."""

    def behave(handler: _Handler, _server: ClaudeServer) -> None:
        body = json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()
        handler.send_response(code)
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", str(len(body)))
        if retry_after is not None:
            handler.send_header("retry-after", retry_after)
        handler.end_headers()
        handler.wfile.write(body)

    return behave


def slow(seconds: float = 30.0, *, after: str | None = None) -> Behaviour:
    """Stay silent; with `after` only once that text was sent."""

    def behave(handler: _Handler, server: ClaudeServer) -> None:
        if after is not None:
            handler.begin_stream()
            _start(handler, 12, 0, 0)
            _delta(handler, after)
        server.closing.wait(seconds)

    return behave


def malformed(data: str = "{not json") -> Behaviour:
    """A stream whose first event carries `data`."""

    def behave(handler: _Handler, _server: ClaudeServer) -> None:
        handler.begin_stream()
        handler.wfile.write(f"event: message_start\ndata: {data}\n\n".encode())

    return behave


def cut(text: str | None = None) -> Behaviour:
    """Drop the connection: before anything is sent, or in the middle of `text`."""

    def behave(handler: _Handler, _server: ClaudeServer) -> None:
        if text is not None:
            handler.begin_stream()
            _start(handler, 12, 0, 0)
            _delta(handler, text)
        handler.connection.shutdown(2)

    return behave


def stream_error(kind: str = "overloaded_error", message: str = "Overloaded") -> Behaviour:
    """A stream that ends in an error event."""

    def behave(handler: _Handler, _server: ClaudeServer) -> None:
        handler.begin_stream()
        _start(handler, 12, 0, 0)
        handler.event("error", error={"type": kind, "message": message})

    return behave


def _key(handler: _Handler) -> str | None:
    """The SDK's versions differ in the header that they use."""
    bearer = handler.headers.get("authorization", "").removeprefix("Bearer ")
    return handler.headers.get("x-api-key") or bearer or None


def _start(handler: _Handler, prompt_tokens: int, cache_read: int, cache_written: int) -> None:
    usage = {
        "input_tokens": prompt_tokens,
        "cache_read_input_tokens": cache_read,
        "cache_creation_input_tokens": cache_written,
        "output_tokens": 1,
    }
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-test-1",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    handler.event("message_start", message=message)
    handler.event("content_block_start", index=0, content_block={"type": "text", "text": ""})


def _delta(handler: _Handler, text: str) -> None:
    handler.event("content_block_delta", index=0, delta={"type": "text_delta", "text": text})
