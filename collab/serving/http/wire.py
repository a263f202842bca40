"""One answer on its way to a client: whole, or as a stream that never falls silent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress

from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from collab.serving import sse
from collab.serving.refusal import Refused
from collab.serving.reply import Reply

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


class Wire:
    """The way to one client. A stream begins with its first event, so that what fails before it is
    told by a status."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, reply: Reply) -> None:
        self._scope, self._receive, self._send, self._reply = scope, receive, send, reply
        self._one = asyncio.Lock()
        self._last = asyncio.get_running_loop().time()
        self._opening: str | None = None
        self.has_begun = False
        self.has_ended = False

    async def left(self) -> None:
        """Return when the client has gone."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def stream(self, events: Iterable[str]) -> bool:
        """Send events of a stream; whether there were any."""
        async with self._one:
            if self._opening is None:
                self._opening = "".join(self._reply.begin())
            if text := "".join(events):
                if not self.has_begun:
                    self.has_begun = True
                    start = {"type": "http.response.start", "status": 200, "headers": _HEADERS}
                    await self._send(start)
                    text = self._opening + text
                await self._chunk(text, more=True)
                return True
        return False

    async def end(self) -> None:
        """Close the stream."""
        async with self._one:
            self.has_ended = True
            await self._chunk("", more=False)

    async def give(self, answer: JSONResponse) -> None:
        """Send an answer that is whole."""
        self.has_begun = self.has_ended = True
        await answer(self._scope, self._receive, self._send)

    async def refuse(self, refused: Refused, seconds: float) -> None:
        """Tell that there is no answer, by a status or within the stream.

        A client that does not take it within `seconds` is left.
        """
        if self.has_ended:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                if self.has_begun:
                    await self.stream(self._reply.fail(refused))
                    await self.end()
                else:
                    await self.give(told(refused))

    @asynccontextmanager
    async def kept_alive(self, seconds: float | None) -> AsyncIterator[None]:
        """While entered, a comment is sent whenever nothing else was for so many seconds."""
        if seconds is None:
            yield
            return
        pinging = asyncio.create_task(self._ping(seconds))
        try:
            yield
        finally:
            pinging.cancel()
            await asyncio.gather(pinging, return_exceptions=True)

    async def _ping(self, seconds: float) -> None:
        while True:
            silent = asyncio.get_running_loop().time() - self._last
            if silent >= seconds:
                await self.stream([sse.PING])
            else:
                await asyncio.sleep(seconds - silent)

    async def _chunk(self, text: str, *, more: bool) -> None:
        await self._send({"type": "http.response.body", "body": text.encode(), "more_body": more})
        self._last = asyncio.get_running_loop().time()


def told(refused: Refused) -> JSONResponse:
    """A refusal as an answer of its own."""
    close = {"connection": "close"} if refused.status in (408, 413) else {}
    headers = {**refused.headers, **close}
    return JSONResponse(refused.body, status_code=refused.status, headers=headers)
