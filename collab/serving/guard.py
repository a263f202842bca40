"""Checks each request's host, origin, key and body, and writes a log line."""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
import time
import traceback
import uuid
from collections.abc import Sequence
from pathlib import Path

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from collab.serving.refusal import SERVER, Refused
from collab.serving.settings import Settings

MAX_DROPPED_BYTES = 100_000_000
"""Number of bytes over the limit to read and drop. Otherwise, a client that is still sending would
get a connection reset instead of the answer.
"""


async def read_body(request: Request, limit: int, seconds: float) -> bytes:
    """Return the whole JSON body of a request.

    Raises:
        Refused: the content type is not JSON, the body is larger than `limit` bytes, or reading it
            takes longer than `seconds`.
        starlette.requests.ClientDisconnect: the client has disconnected.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refused(415, None, "send the header 'content-type: application/json'")
    if request.headers.get("content-encoding", "").lower() not in ("", "identity"):
        raise Refused(415, None, "send the body uncompressed, without 'content-encoding'")
    length = request.headers.get("content-length", "")
    declared = int(length) if length.isdecimal() and len(length) < 20 else 0
    if declared > limit + MAX_DROPPED_BYTES:
        raise _too_large(limit)
    body, dropped = bytearray(), 0
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                if declared <= limit and len(body) + len(chunk) <= limit and not dropped:
                    body += chunk
                elif (dropped := dropped + len(chunk)) > MAX_DROPPED_BYTES:
                    break
    except TimeoutError:
        if not dropped:
            message = f"the body did not arrive within {seconds:g} s"
            raise Refused(408, "timeout", message) from None
    if dropped:
        raise _too_large(limit)
    return bytes(body)


def _too_large(limit: int) -> Refused:
    return Refused(413, "request_too_large", f"the body has more than {limit} bytes, the limit")


LOG = logging.getLogger("collab.serving")

_ID_PATTERN = re.compile(r"[A-Za-z0-9._-]{1,64}")
_PUBLIC_PATHS = ("/health",)
_PACKAGE_FOLDER = Path(__file__).parents[1]
"""Folder of the package. Frames of libraries are elsewhere."""


class Guard:
    """An ASGI application that checks requests to another one. It reports failures of that
    application without their cause."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app, self._settings = app, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        request = headers.get("x-request-id", "")
        if not _ID_PATTERN.fullmatch(request):  # the log only gets plain ids
            request = uuid.uuid4().hex
        scope.setdefault("state", {})["request"] = request
        status, began = 0, time.monotonic()

        async def forward(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["x-request-id"] = request
            await send(message)

        try:
            self._check(scope, headers)
            await self._app(scope, receive, forward)
        except Refused as refused:
            await refused.response()(scope, receive, forward)
        except Exception as error:
            LOG.error(
                "defect %s at %s, request %s", type(error).__name__, _error_location(error), request
            )
            if not status:
                defect = Refused(500, "internal_error", "internal error of the server", kind=SERVER)
                await defect.response()(scope, receive, forward)
        finally:
            seconds = time.monotonic() - began
            line = (_printable(scope["method"]), _printable(_path(scope)), status, seconds)
            LOG.info("%s %s %d %.3f s %s", *line, request)

    def _check(self, scope: Scope, headers: Headers) -> None:
        """Raise Refused for a request that is not allowed."""
        settings = self._settings
        if settings.hosts is not None and _host_name(headers.get("host", "")) not in settings.hosts:
            raise Refused(
                421, "wrong_host", "this server does not have that host name; use its address"
            )
        origin = headers.get("origin")
        if origin is not None and origin not in settings.origins:
            raise Refused(403, "wrong_origin", "this server does not allow pages of this origin")
        if (
            settings.keys
            and _path(scope) not in _PUBLIC_PATHS
            and not _has_valid_key(headers, settings.keys)
        ):
            raise Refused(
                401, "invalid_api_key", "missing or wrong key; send 'authorization: Bearer KEY'"
            )


def _has_valid_key(headers: Headers, keys: Sequence[str]) -> bool:
    """Return True if one of the keys was sent, in constant time."""
    kind, _, sent = headers.get("authorization", "").partition(" ")
    sent_key = sent.strip().encode() if kind.lower() == "bearer" else b""
    return True in {hmac.compare_digest(sent_key, key.encode()) for key in keys}


def _path(scope: Scope) -> str:
    """Return the path below the mount point."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", "")) or "/"


def _host_name(host: str) -> str:
    """Return a host without its port."""
    name = host.partition("]")[0].removeprefix("[") if host.startswith("[") else host
    return name if host.startswith("[") else name.partition(":")[0].lower()


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() and c != " " else "?" for c in text[:200])


def _error_location(error: Exception) -> str:
    """Return the last file and line of collab in an error's traceback, without folders."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if Path(frame.filename).is_relative_to(_PACKAGE_FOLDER)]
    return f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "?"
