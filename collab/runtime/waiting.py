"""Waiting for async work from plain code, in a script as in a notebook."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """What `work` gives, also where an event loop is running, as in a notebook's cell.

    There it is done in a loop of its own, on a thread of its own, while the caller's thread waits.
    """
    if not _in_a_loop():
        return asyncio.run(work)
    loop = LoopThread()
    try:
        return loop.wait_for(work)
    finally:
        loop.close()


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class LoopThread:
    """An event loop on a thread of its own, from now until `close`."""

    def __init__(self) -> None:
        self._loop: Future[asyncio.AbstractEventLoop] = Future()
        self._end = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="collab loop", daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin `work` there."""
        return asyncio.run_coroutine_threadsafe(work, self._loop.result())

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """What `work` gives. An interruption of the wait cancels it, and waits for its end."""
        over: Future[None] = Future()
        begun = self.submit(_begun(work, over))
        try:
            over.result()
        except BaseException:
            call = self._loop.result().call_soon_threadsafe
            begun.add_done_callback(lambda task: call(task.result().cancel))
            over.result()
            raise
        return begun.result().result()

    def is_running_here(self) -> bool:
        """Whether the caller's code runs in this loop."""
        with suppress(RuntimeError):
            return asyncio.get_running_loop() is self._loop.result()
        return False

    def close(self) -> None:
        """End the loop; what is still at work in it is cancelled."""
        self._loop.result().call_soon_threadsafe(self._end.set)
        self._thread.join()

    def _run(self) -> None:
        asyncio.run(self._until_end())

    async def _until_end(self) -> None:
        self._loop.set_result(asyncio.get_running_loop())
        await self._end.wait()


async def _begun(work: Coroutine[Any, Any, T], over: Future[None]) -> asyncio.Task[T]:
    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(lambda _: over.set_result(None))
    return task
