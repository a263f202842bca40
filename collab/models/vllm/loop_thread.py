"""An event loop on a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from threading import Lock, Thread
from typing import Any, TypeVar

from collab.errors import ModelUnavailable

Result = TypeVar("Result")


class LoopThread:
    """Runs coroutines for callers in any event loop, one after another or side by side.

    What lives in it, connections and waiting requests, outlives the callers' loops and is never
    kept waiting by them.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop = asyncio.new_event_loop()
        self._starting, self._ending = Lock(), Lock()
        self._is_open = True
        self._tasks: set[asyncio.Task[Any]] = set()
        """What callers wait for."""
        self._thread = Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    async def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of `work`; cancelling this cancels it there.

        Raises:
            ModelUnavailable: the thread is closed, or was before the work was done.
        """
        with self._starting:
            if not self._is_open:
                work.close()
                raise self._closed()
            started = asyncio.run_coroutine_threadsafe(self._done(work), self._loop)
        waiting = asyncio.wrap_future(started)
        try:
            await asyncio.wait([waiting])
        except asyncio.CancelledError:
            if not waiting.cancel() and not waiting.cancelled():
                waiting.exception()  # of work that nobody waits for any more
            raise
        if waiting.cancelled():  # by `close`, not by whoever waits
            raise self._closed()
        return waiting.result()

    def close(self, last: Callable[[], Awaitable[None]]) -> None:
        """Cancel what is under way, do what is `last`, and stop the loop; a second time nothing."""
        with self._ending:
            with self._starting:
                if not self._is_open:
                    return
                self._is_open = False
            try:
                asyncio.run_coroutine_threadsafe(self._end(last), self._loop).result()
            finally:
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join()
                self._loop.close()

    async def _done(self, work: Coroutine[Any, Any, Result]) -> Result:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            return await work
        finally:
            self._tasks.discard(task)

    async def _end(self, last: Callable[[], Awaitable[None]]) -> None:
        under_way = [*self._tasks]
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        try:
            await last()
        finally:
            await self._loop.shutdown_default_executor()

    def _closed(self) -> ModelUnavailable:
        return ModelUnavailable(f"{self._name} was closed, and answers nothing more; open it anew")
