"""Waits for async work from plain code, in a script as well as in a notebook."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from collab.errors import CollabError
from collab.models.loop_thread import LoopThread
from collab.models.open import ModelPool

T = TypeVar("T")


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` and return its result, also while an event loop is running, as in a notebook.

    If an event loop is running, the work runs in another loop on a separate thread, and the
    caller's thread waits.
    """
    if not _is_loop_running():
        return asyncio.run(work)
    loop = LoopThread("the event loop")
    try:
        return loop.wait_for(work)
    finally:
        loop.close()


def _is_loop_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class OpenModels:
    """Models that stay open between the runs of a team, from `open` to `close` or `aclose`."""

    def __init__(self) -> None:
        self._pool: ModelPool | None = None
        self._thread: LoopThread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop in which the models live."""

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for a copy, or for another process, which cannot share open models."""
        if self._pool is not None:
            raise TypeError(
                "an opened team cannot be copied or sent to another process; make it outside of its"
                " `with` block, send it there, and open it there"
            )
        return vars(self)

    def open(self, *, here: bool = False) -> None:
        """Start keeping models, in an event loop on a separate thread, or `here`, in the running
        one."""
        if self._pool is not None:
            raise CollabError(
                "the team is already in use by a `with` block; leave that block first"
            )
        self._pool = ModelPool()
        self._thread = None if here else LoopThread("the team")
        self._loop = self._thread.loop if self._thread else asyncio.get_running_loop()

    def close(self, *, clean: bool) -> None:
        """Close the models on the separate thread, as `aclose` does, and end the thread."""
        assert self._thread is not None, "open comes first"
        try:
            self._thread.wait_for(self.aclose(clean=clean))
        finally:
            self._thread.close()
            self._thread = None

    async def aclose(self, *, clean: bool) -> None:
        """Close the models. Set `clean` after a run without errors.

        Raises:
            ModelError: a script has unused answers after a `clean` end.
        """
        assert self._pool is not None, "open comes first"
        pool, self._pool, self._loop = self._pool, None, None
        await pool.aclose()
        if clean:
            pool.verify()

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` in the event loop of the open models, and return its result.

        Raises:
            CollabError: the team was opened by `async with`, and needs `await team.arun`.
        """
        if self._thread is not None:
            return self._thread.wait_for(work)
        if self._loop is not None:
            work.close()
            raise CollabError("the team was entered by 'async with'; use 'await team.arun(...)'")
        return wait_for(work)

    async def arun(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of `work`, awaited in the event loop of the open models."""
        if self._thread is None:
            return await work
        return await self._thread.run(work)

    def pool_here(self) -> ModelPool | None:
        """Return the open models, or None if there are none.

        Raises:
            CollabError: they belong to another event loop, such as the one that `with` makes.
        """
        if self._pool is not None and self._loop is not asyncio.get_running_loop():
            raise CollabError(
                "the team's models belong to another event loop; use `async with` in the loop that"
                " runs the team, or, in a plain `with` block, use `run` or `arun`"
            )
        return self._pool
