"""Who may come in: keys, names of the server, pages of a browser; and a line of log for each."""

from __future__ import annotations

import hmac
import logging
import re
import time
import traceback
import uuid
from collections.abc import Sequence
from pathlib import Path

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from collab.serving.http.wire import told
from collab.serving.refusal import SERVER, Refused
from collab.serving.settings import Settings

LOG = logging.getLogger("collab.serving")

_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_OPEN = ("/health",)
_OURS = Path(__file__).parents[2]
"""The folder of the package: frames of libraries lie elsewhere."""


class Guard:
    """An ASGI application before another one; what that one fails at is told without its cause."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app, self._settings = app, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        request = _request_id(headers.get("x-request-id", ""))
        scope.setdefault("state", {})["request"] = request
        sending = _Sending(send, request)
        began = time.monotonic()
        try:
            self._check(scope, headers)
            await self._app(scope, receive, sending)
        except Refused as refused:
            await told(refused)(scope, receive, sending)
        except Exception as error:
            LOG.error("defect %s at %s, request %s", type(error).__name__, _place(error), request)
            if sending.status is None:
                defect = Refused(500, "internal_error", "a defect of the server", kind=SERVER)
                await told(defect)(scope, receive, sending)
        finally:
            seconds = time.monotonic() - began
            line = (_plain(scope["method"]), _plain(_path(scope)), sending.status or 0, seconds)
            LOG.info("%s %s %d %.3f s %s", *line, request)

    def _check(self, scope: Scope, headers: Headers) -> None:
        """Raise Refused for whom is not let in."""
        settings = self._settings
        if settings.hosts is not None and _name(headers.get("host", "")) not in settings.hosts:
            raise Refused(421, "wrong_host", "this server goes by another name; use its address")
        origin = headers.get("origin")
        if origin is not None and origin not in settings.origins:
            raise Refused(403, "wrong_origin", "pages of this origin may not ask here")
        if settings.keys and _path(scope) not in _OPEN and not _opens(headers, settings.keys):
            raise Refused(
                401, "invalid_api_key", "no key, or a wrong one; send 'authorization: Bearer KEY'"
            )


class _Sending:
    """Passes an answer on, with the request's id, and remembers its status."""

    def __init__(self, send: Send, request: str) -> None:
        self._send, self._request = send, request
        self.status: int | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            MutableHeaders(scope=message)["x-request-id"] = self._request
        await self._send(message)


def _opens(headers: Headers, keys: Sequence[str]) -> bool:
    """Whether one of the keys was sent. Takes as long for a key that is nearly right."""
    kind, _, sent = headers.get("authorization", "").partition(" ")
    given = sent.strip().encode() if kind.lower() == "bearer" else b""
    return True in {hmac.compare_digest(given, key.encode()) for key in keys}


def _request_id(asked: str) -> str:
    """The client's own id where it is a plain one, which a line of log can hold."""
    return asked if _ID.fullmatch(asked) else uuid.uuid4().hex


def _path(scope: Scope) -> str:
    """Below where the application is mounted."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", "")) or "/"


def _name(host: str) -> str:
    """A host without its port."""
    name = host.partition("]")[0].removeprefix("[") if host.startswith("[") else host
    return name if host.startswith("[") else name.partition(":")[0].lower()


def _plain(text: str) -> str:
    return "".join(c if c.isprintable() and c != " " else "?" for c in text[:200])


def _place(error: Exception) -> str:
    """The last file and line of our own that led to it, without the folders above it."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if Path(frame.filename).is_relative_to(_OURS)]
    return f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "?"
