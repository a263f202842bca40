"""How many episodes are played at once, and who waits."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from contextlib import contextmanager

from collab.serving.refusal import LIMITED, Refused


class Lanes:
    """Room for some episodes and a queue of some requests, served in the order they came."""

    def __init__(self, episodes: int, queue: int) -> None:
        self.running = self.waiting = 0
        self._most_waiting = queue
        self._free = asyncio.Semaphore(episodes)
        self._most = episodes
        self._seconds = 1.0
        """What an episode takes, as far as those of late tell."""

    @property
    def is_idle(self) -> bool:
        """Nobody is answered, and nobody waits."""
        return self.running + self.waiting == 0

    @property
    def places(self) -> int:
        """The most requests that run and wait."""
        return self._most + self._most_waiting

    def widen(self, episodes: int) -> None:
        """Play so many at the same time; before the first request."""
        self._most, self._free = episodes, asyncio.Semaphore(episodes)

    @contextmanager
    def place(self) -> Iterator[Place]:
        """A place in the queue, given back at the end of the block.

        Raises:
            Refused: the queue is full; says when to come again.
        """
        if self.running + self.waiting >= self.places:
            raise Refused(
                429,
                "rate_limit_exceeded",
                f"{self.running} requests are answered and {self.waiting} wait, which is the limit"
                " of this server; come again later",
                kind=LIMITED,
                retry_after=self._when(),
            )
        self.waiting += 1
        place = Place(self)
        try:
            yield place
        finally:
            place.leave()

    def took(self, seconds: float) -> None:
        """An episode has ended; what it took is told to those who are sent away."""
        self._seconds += (seconds - self._seconds) / 8

    def _when(self) -> int:
        """Seconds until a place is likely to be free."""
        rounds = (self.waiting + 1) / self._most
        return min(600, max(1, math.ceil(rounds * self._seconds)))


class Place:
    """One request's place: waiting first, then running."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._runs = False

    async def turn(self) -> None:
        """Wait until an episode may be played."""
        await self._lanes._free.acquire()
        self._runs = True
        self._lanes.waiting -= 1
        self._lanes.running += 1

    def leave(self) -> None:
        """Make room for the next one."""
        if self._runs:
            self._lanes.running -= 1
            self._lanes._free.release()
        else:
            self._lanes.waiting -= 1
