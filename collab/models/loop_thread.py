"""An event loop on its own thread, where models live and work for callers of any loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from collab.errors import ModelUnavailable
from collab.threads import wait_for_job

T = TypeVar("T")


class LoopThread:
    """An event loop on its own thread, from now until `close`.

    Callers may be in any thread and event loop. The work outlives a caller's loop, and a busy
    caller never delays it.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self.loop = self._runner.get_loop()
        self._start_lock, self._end_lock = threading.Lock(), threading.Lock()
        self._is_open = True
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the thread and return its result. Canceling this call cancels the work.

        Raises:
            ModelUnavailable: the thread is closed, was closed before the work was done, or belongs
                to the parent of this process.
        """
        started = self._submit(work)
        await wait_for_job(started)
        if started.cancelled():  # by `close`, not by the caller
            raise self._closed_error()
        return started.result()

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the thread and return its result, while the caller's thread waits.

        If the caller is interrupted, cancel `work`, wait until it has ended, and raise the
        interrupt again.

        Raises:
            ModelUnavailable: the thread is closed, or belongs to the parent of this process.
        """
        ended: Future[None] = Future()
        try:
            started = self._submit(_start_task(work, ended))
        except ModelUnavailable:
            work.close()
            raise
        try:
            ended.result()
        except BaseException:
            call = self.loop.call_soon_threadsafe
            started.add_done_callback(lambda task: call(task.result().cancel))
            ended.result()
            raise
        return started.result().result()

    def close(self, cleanup: Callable[[], Awaitable[None]] | None = None) -> None:
        """Cancel work in progress, run `cleanup`, and end the thread. A second call does
        nothing."""
        with self._end_lock:
            with self._start_lock:
                if not self._is_open:
                    return
                self._is_open = False
            try:
                if cleanup is not None:
                    asyncio.run_coroutine_threadsafe(_cancel_others(cleanup), self.loop).result()
            finally:
                self.loop.call_soon_threadsafe(self.loop.stop)
                self._thread.join()

    def _run(self) -> None:
        with self._runner:  # at the end, it cancels work in progress
            self.loop.run_forever()

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        with self._start_lock:
            if not self._is_open:
                work.close()
                raise self._closed_error()
            if not self._thread.is_alive():
                work.close()
                raise ModelUnavailable(
                    f"{self.name} was opened before this process was forked; open it in this"
                    " process, by `with` or `async with`, or start processes by 'spawn'"
                )
            return asyncio.run_coroutine_threadsafe(work, self.loop)

    def _closed_error(self) -> ModelUnavailable:
        return ModelUnavailable(f"{self.name} is closed; open it again")


async def _start_task(work: Coroutine[Any, Any, T], ended: Future[None]) -> asyncio.Task[T]:
    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(lambda _: ended.set_result(None))
    return task


async def _cancel_others(cleanup: Callable[[], Awaitable[None]]) -> None:
    """Cancel all other tasks, wait until they have ended, and run `cleanup`.

    A new task starts before it is canceled. Otherwise, a library's task that wraps a coroutine, as
    in anyio, would never await it, which is a warning.
    """
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.get_loop().call_soon(task.cancel)  # the first step of a new task comes before
    await asyncio.gather(*tasks, return_exceptions=True)
    await cleanup()
