"""Runs a user's function in a thread of its own, and waits for the work of other threads."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any


async def wait_for_job(job: Future[Any], stop: Callable[[], object] = lambda: None) -> None:
    """Wait until another thread has done `job`, or has canceled it.

    If this call is canceled, call `stop`, cancel a job that has not begun, and wait for the end of
    one that has.
    """
    work = asyncio.wrap_future(job)
    try:
        await asyncio.wait([work])
    except asyncio.CancelledError:
        stop()
        if not job.cancel():
            await asyncio.wait([work])
        raise
    finally:
        if work.done() and not work.cancelled():
            work.exception()  # the caller reads it from the job


async def run_in_thread(function: Callable[..., Any], /, *args: Any, **options: Any) -> Any:
    """Call `function` in its own daemon thread, and return its result.

    An async function runs there in its own event loop, so that even one that blocks can be
    abandoned. If the caller is canceled, the thread continues, and ends with the program at the
    latest. `SystemExit` and `KeyboardInterrupt` in the function arrive as `RuntimeError`.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

    def settle(outcome: tuple[Any, BaseException | None]) -> None:
        if not done.done():
            done.set_result(outcome)

    def run() -> None:
        outcome: tuple[Any, BaseException | None]
        try:
            returned = function(*args, **options)
            outcome = (asyncio.run(returned) if inspect.iscoroutine(returned) else returned, None)
        except BaseException as error:
            outcome = (None, error)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, outcome)

    name = getattr(function, "__name__", "user function")
    threading.Thread(target=run, name=f"collab {name}", daemon=True).start()
    value, error = await done
    if error is None:
        return value
    if isinstance(error, Exception):
        raise error
    raise RuntimeError(f"{type(error).__name__}: {error}") from error
