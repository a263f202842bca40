"""Closing an event loop's thread while tasks are running on it."""

import asyncio
import threading
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from collab.errors import ModelUnavailable
from collab.models.loop_thread import LoopThread


def test_a_new_task_starts_before_it_is_canceled() -> None:
    """A task that ends unstarted would leave the coroutine that it wraps behind, with a warning."""
    begun: list[str] = []
    thread = LoopThread("loop")
    closing = threading.Thread(target=thread.close, args=(lambda: asyncio.sleep(0),))

    async def forever() -> None:
        begun.append("forever")
        await asyncio.Event().wait()

    async def wrap(work: Coroutine[Any, Any, None]) -> None:
        await work

    async def work() -> None:
        closing.start()
        time.sleep(0.1)  # the close is the loop's next callback
        await asyncio.sleep(0)
        await asyncio.create_task(wrap(forever()))  # if canceled, it cancels the new task

    with pytest.raises(ModelUnavailable, match="loop is closed"):
        asyncio.run(thread.run(work()))
    closing.join()
    assert begun == ["forever"]
