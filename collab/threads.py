"""Runs a user's function in a thread of its own."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any


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
