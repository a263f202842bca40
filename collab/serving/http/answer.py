"""From a request that was read to its answer: the queue, the episode, and its end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from collab.records import Episode, Problem
from collab.runtime.events import Event
from collab.serving.asking import Asked
from collab.serving.episodes import play
from collab.serving.http.wire import Wire
from collab.serving.narration import Narrator
from collab.serving.refusal import Refused, unavailable
from collab.serving.reply import Reply
from collab.serving.service import Service
from collab.serving.team import ServedTeam


@dataclass
class Answer:
    """An ASGI application for one request. The episode is cancelled when its client leaves."""

    service: Service
    team: ServedTeam
    asked: Asked
    problem: Problem
    reply: Reply
    request: str
    """Its id."""
    carrier: Mapping[str, str]
    """Its headers that say which trace it belongs to."""
    _began: float = field(init=False, default=0.0)
    """When it came, before it had a place."""
    _is_told: bool = field(init=False, default=False)
    """A part of the answer was sent; pings and the opening are none."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        wire = Wire(scope, receive, send, self.reply)
        work = asyncio.create_task(self._work(wire))
        gone = asyncio.create_task(wire.left())
        shut = asyncio.create_task(self.service.shut.wait())
        try:
            await asyncio.wait({work, gone, shut}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            is_shut = shut.done() and not work.done()
            for task in (work, gone, shut):
                task.cancel()
            await asyncio.gather(work, gone, shut, return_exceptions=True)
        if work.cancelled():
            self.service.metrics.refused(self.team.name, "shut down" if is_shut else "client left")
            if is_shut:
                told = unavailable("the server is shutting down")
                await wire.refuse(told, self.service.settings.client_seconds)
        elif error := work.exception():
            raise error

    async def _work(self, wire: Wire) -> None:
        settings = self.service.settings
        self._began = time.monotonic()
        try:
            with self.service.lanes.place() as place:
                async with wire.kept_alive(settings.ping_seconds if self.asked.stream else None):
                    await place.turn()
                    episode = await self._play(wire)
            await self._hand_over(wire, episode)
        except Refused as refused:
            self.service.metrics.refused(self.team.name, refused.reason or refused.kind)
            await wire.refuse(refused, settings.client_seconds)

    async def _hand_over(self, wire: Wire, episode: Episode) -> None:
        """Send the end of the answer; a client that does not take it is left."""
        try:
            async with asyncio.timeout(self.service.settings.client_seconds):
                if self.asked.stream:
                    await self._tell(wire, self.reply.end(episode))
                    await wire.end()
                else:
                    await wire.give(JSONResponse(self.reply.whole(episode)))
        except TimeoutError:
            self.service.metrics.refused(self.team.name, "client left")
        else:
            self.service.metrics.answered(self.team.name, episode)

    async def _play(self, wire: Wire) -> Episode:
        """The episode, told as it goes where a stream was asked for."""
        narrator = Narrator()

        async def hear(event: Event) -> None:
            for words in narrator.see(event) if self.asked.stream else ():
                await self._tell(wire, self.reply.words(words))

        whole = (self.service, self.team, self.asked, self.problem, self.request)
        return await play(*whole, hear=hear, carrier=self.carrier)

    async def _tell(self, wire: Wire, events: Iterable[str]) -> None:
        """Send a part of a stream; the first one is timed, with the wait for a place."""
        if await wire.stream(events) and not self._is_told:
            self._is_told = True
            self.service.metrics.began(self.team.name, time.monotonic() - self._began)
