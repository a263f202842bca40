"""Answers one request: the queue, the episode, and the stream to the client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from collab.records import Episode, Problem
from collab.runtime.events import Event
from collab.serving.reading import TeamQuestion
from collab.serving.refusal import Refused
from collab.serving.reply import PING, Narrator, TeamReply
from collab.serving.service import Service, play
from collab.serving.team import ServedTeam

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


class Wire:
    """The connection to one client.

    A stream starts with its first event, so an earlier failure can still set the status.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, reply: TeamReply) -> None:
        self._scope, self._receive, self._send, self._reply = scope, receive, send, reply
        self._one = asyncio.Lock()
        self._last = asyncio.get_running_loop().time()
        self._opening: str | None = None
        self.has_begun = False
        self.has_ended = False

    async def left(self) -> None:
        """Return once the client has disconnected."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def stream(self, events: Iterable[str]) -> bool:
        """Send events of a stream; returns whether there were any."""
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
        """Send a complete answer."""
        self.has_begun = self.has_ended = True
        await answer(self._scope, self._receive, self._send)

    async def refuse(self, refused: Refused, seconds: float) -> None:
        """Send the refusal, as a status or within the stream.

        A client that does not accept it within `seconds` is dropped.
        """
        if self.has_ended:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                if self.has_begun:
                    await self.stream(self._reply.fail(refused))
                    await self.end()
                else:
                    await self.give(refused.response())

    @asynccontextmanager
    async def kept_alive(self, seconds: float | None) -> AsyncIterator[None]:
        """While entered, send a comment whenever nothing was sent for so many seconds."""
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
                await self.stream([PING])
            else:
                await asyncio.sleep(seconds - silent)

    async def _chunk(self, text: str, *, more: bool) -> None:
        await self._send({"type": "http.response.body", "body": text.encode(), "more_body": more})
        self._last = asyncio.get_running_loop().time()


@dataclass
class AnswerApp:
    """An ASGI application for one request. The episode is cancelled when its client leaves."""

    service: Service
    team: ServedTeam
    question: TeamQuestion
    problem: Problem
    reply: TeamReply
    request: str
    """Id of the request."""
    carrier: Mapping[str, str]
    """Trace headers of the request."""
    _began: float = field(init=False, default=0.0)
    """Arrival time of the request, before it had a place."""
    _has_sent: bool = field(init=False, default=False)
    """Whether a part of the answer was sent; pings and the opening do not count."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        wire = Wire(scope, receive, send, self.reply)
        try:
            await self.service.finish(self.team.name, self._work(wire), wire.left())
        except Refused as refused:
            await wire.refuse(refused, self.service.settings.client_seconds)

    async def _work(self, wire: Wire) -> None:
        settings = self.service.settings
        self._began = time.monotonic()
        try:
            seconds = settings.ping_seconds if self.question.stream else None
            async with wire.kept_alive(seconds), self.service.lanes.place():
                episode = await self._play(wire)
            await self._hand_over(wire, episode)
        except Refused as refused:
            self.service.metrics.refused(self.team.name, refused.reason or refused.kind)
            await wire.refuse(refused, settings.client_seconds)

    async def _hand_over(self, wire: Wire, episode: Episode) -> None:
        """Send the end of the answer; a client that does not accept it is dropped."""
        try:
            async with asyncio.timeout(self.service.settings.client_seconds):
                if self.question.stream:
                    await self._tell(wire, self.reply.end(episode))
                    await wire.end()
                else:
                    await wire.give(JSONResponse(self.reply.whole(episode)))
        except TimeoutError:
            self.service.metrics.refused(self.team.name, "client left")
        else:
            self.service.metrics.answered(self.team.name, episode)

    async def _play(self, wire: Wire) -> Episode:
        """Play the episode, and stream it if the request asks for that."""
        narrator = Narrator()

        async def hear(event: Event) -> None:
            for words in narrator.see(event) if self.question.stream else ():
                await self._tell(wire, self.reply.words(words))

        whole = (self.service, self.team, self.question, self.problem, self.request)
        return await play(*whole, hear=hear, carrier=self.carrier)

    async def _tell(self, wire: Wire, events: Iterable[str]) -> None:
        """Send a part of a stream; the first part is timed, including the wait for a place."""
        if await wire.stream(events) and not self._has_sent:
            self._has_sent = True
            self.service.metrics.began(self.team.name, time.monotonic() - self._began)
