"""A local server in place of a model, with everything that can go wrong.

Behaviors come from `status`, `slow`, `malformed` and `cut`, and from each protocol's `answer`.
"""

from __future__ import annotations

import json
import threading
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from support.local_server import Handler, LocalServer


class Service(LocalServer):
    """Answers the n-th request with the n-th behavior, and later ones with the last.

    `bodies` and `keys` record the requests.
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
"""Answers a request on a server, given its body."""


def _key(handler: Handler) -> str | None:
    """The API key; SDKs send it in different headers."""
    bearer = handler.headers.get("authorization", "").removeprefix("Bearer ")
    return handler.headers.get("x-api-key") or bearer or None


def status(
    code: int, kind: str = "api_error", message: str = "trouble", retry_after: str | None = None
) -> Behavior:
    """Send an error status with the service's error body."""

    def behave(handler: Handler, server: Service, body: dict[str, Any]) -> None:
        headers = {} if retry_after is None else {"retry_after": retry_after}
        content = json.dumps(server.error(kind, message)).encode()
        handler.send(code, content, content_type="application/json", **headers)

    return behave


def slow(seconds: float = 30.0, *, after: str | None = None) -> Behavior:
    """Stay silent, at once or after sending the text `after`."""

    def behave(handler: Handler, server: Service, body: dict[str, Any]) -> None:
        if after is not None:
            server.start(handler)
            server.say(handler, after)
        server.closing.wait(seconds)

    return behave


def malformed(data: str = "{not json", kind: str = "message_start") -> Behavior:
    """Begin a stream whose first event contains `data`."""

    def behave(handler: Handler, server: Service, body: dict[str, Any]) -> None:
        handler.begin_stream()
        handler.event(data, kind)

    return behave


def cut(text: str | None = None) -> Behavior:
    """Drop the connection: before the answer, or after `text`."""

    def behave(handler: Handler, server: Service, body: dict[str, Any]) -> None:
        if text is not None:
            server.start(handler)
            server.say(handler, text)
        handler.connection.shutdown(2)

    return behave


def count_aloud(limit: int, stops: list[str]) -> tuple[list[str], str]:
    """Count within `limit` tokens; return the pieces, and stop or length."""
    pieces: list[str] = []
    for number in range(1, 101):
        for piece in (str(number), ", "):
            if piece in stops or piece.strip() in stops:
                return pieces, "stop"
            if len(pieces) == limit:
                return pieces, "length"
            pieces.append(piece)
    return pieces, "stop"
