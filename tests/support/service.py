"""A local server that answers for a model, and everything that can go wrong with one.

Behaviors are made by `status`, `slow`, `malformed` and `cut`, and by the dialects' own `answer`.
"""

from __future__ import annotations

import json
import threading
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from support.local_server import Handler, LocalServer


class Service(LocalServer):
    """Answers the n-th request by the n-th behavior, and all later ones by the last.

    `bodies` and `keys` hold what was sent.
    """

    def __init__(self, *behaviors: Behavior) -> None:
        super().__init__()
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.most_at_once = 0
        self._behaviors = list(behaviors)
        self._lock = threading.Lock()
        self._at_once = 0

    @abstractmethod
    def start(self, handler: Handler) -> None:
        """Begin a stream."""

    @abstractmethod
    def say(self, handler: Handler, text: str) -> None:
        """Send a piece of an answer."""

    @abstractmethod
    def error(self, kind: str, message: str) -> dict[str, Any]:
        """The body of an error."""

    def post(self, handler: Handler) -> None:
        length = int(handler.headers.get("content-length", 0))
        body = json.loads(handler.rfile.read(length))
        with self._lock:
            number = len(self.bodies)
            self.bodies.append(body)
            self.keys.append(_key(handler))
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            self._behaviors[min(number, len(self._behaviors) - 1)](handler, self, body)
        finally:
            with self._lock:
                self._at_once -= 1


Behavior = Callable[[Handler, Any, dict[str, Any]], None]
"""Answers a request, on a server, by its body."""


def _key(handler: Handler) -> str | None:
    """SDKs and their versions differ in the header that they use."""
    bearer = handler.headers.get("authorization", "").removeprefix("Bearer ")
    return handler.headers.get("x-api-key") or bearer or None


def status(
    code: int, kind: str = "api_error", message: str = "trouble", retry_after: str | None = None
) -> Behavior:
    """An error status with the service's error body."""

    def behave(handler: Handler, server: Service, body: dict[str, Any]) -> None:
        headers = {} if retry_after is None else {"retry_after": retry_after}
        content = json.dumps(server.error(kind, message)).encode()
        handler.send(code, content, content_type="application/json", **headers)

    return behave


def slow(seconds: float = 30.0, *, after: str | None = None) -> Behavior:
    """Stay silent; with `after` only once that text was sent."""

    def behave(handler: Handler, server: Service, body: dict[str, Any]) -> None:
        if after is not None:
            server.start(handler)
            server.say(handler, after)
        server.closing.wait(seconds)

    return behave


def malformed(data: str = "{not json", kind: str = "message_start") -> Behavior:
    """A stream whose first event carries `data`."""

    def behave(handler: Handler, server: Service, body: dict[str, Any]) -> None:
        handler.begin_stream()
        handler.event(data, kind)

    return behave


def cut(text: str | None = None) -> Behavior:
    """Drop the connection: before anything is sent, or in the middle of `text`."""

    def behave(handler: Handler, server: Service, body: dict[str, Any]) -> None:
        if text is not None:
            server.start(handler)
            server.say(handler, text)
        handler.connection.shutdown(2)

    return behave


def count_aloud(limit: int, stops: list[str]) -> tuple[list[str], str]:
    """What a patient model says within `limit` tokens: pieces, and stop or length."""
    pieces: list[str] = []
    for number in range(1, 101):
        for piece in (str(number), ", "):
            if piece in stops or piece.strip() in stops:
                return pieces, "stop"
            if len(pieces) == limit:
                return pieces, "length"
            pieces.append(piece)
    return pieces, "stop"
