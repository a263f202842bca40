"""The models of a team that was entered, and the event loop that they belong to."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from collab.errors import CollabError
from collab.models.open import ModelPool
from collab.runtime.waiting import LoopThread, wait_for

T = TypeVar("T")


class Kept:
    """Models that stay open between the runs of a team, from `open` to `close`.

    Opened by plain code, they live in a loop on a thread of their own; opened here (`open_here`),
    in the loop that is running.
    """

    def __init__(self) -> None:
        self._pool: ModelPool | None = None
        self._thread: LoopThread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def open(self) -> None:
        self._take_pool()
        self._thread = LoopThread()

    def open_here(self) -> None:
        self._take_pool()
        self._loop = asyncio.get_running_loop()

    def close(self, *, clean: bool) -> None:
        """Close the models; after a `clean` end, raise ModelError for a script not used up."""
        assert self._thread is not None, "open comes first"
        try:
            self._thread.wait_for(self._close_pool(clean=clean))
        finally:
            self._thread.close()
            self._thread = None

    async def close_here(self, *, clean: bool) -> None:
        """As `close`, for `open_here`."""
        self._loop = None
        await self._close_pool(clean=clean)

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """What `work` gives, in the loop of the models that are kept."""
        if self._thread is not None:
            return self._thread.wait_for(work)
        if self._loop is not None:
            work.close()
            raise CollabError("the team was entered by 'async with'; use 'await team.arun(...)'")
        return wait_for(work)

    async def follow(self, work: Coroutine[Any, Any, T]) -> T:
        """As `wait_for`, within a running event loop."""
        if self._thread is None:
            return await work
        return await asyncio.wrap_future(self._thread.submit(work))

    def pool_here(self) -> ModelPool | None:
        """The models that are kept for the loop that is running, if any are."""
        own = self._thread is not None and self._thread.is_running_here()
        return self._pool if own or self._loop is asyncio.get_running_loop() else None

    def _take_pool(self) -> None:
        if self._pool is not None:
            raise CollabError("the team was entered already; leave it first")
        self._pool = ModelPool()

    async def _close_pool(self, *, clean: bool) -> None:
        assert self._pool is not None, "open comes first"
        pool, self._pool = self._pool, None
        await pool.aclose()
        if clean:
            pool.verify()
