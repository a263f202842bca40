"""Further attempts at a service that may answer next time."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from email.utils import parsedate_to_datetime
from math import isnan
from typing import TypeVar

from collab.errors import ModelError

Answer = TypeVar("Answer")

FIRST_WAIT = 0.5
LONGEST_WAIT = 30.0


class Transient(Exception):
    """An attempt failed in a way that may pass; `error` is what to raise if it does not."""

    def __init__(self, error: ModelError, retry_after: float | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.retry_after = retry_after
        """Seconds that the service asks to wait."""


def seconds_of(retry_after: str) -> float | None:
    """What a `retry-after` header asks for, in seconds or as a date; None without one."""
    with suppress(ValueError):
        seconds = float(retry_after)
        return None if isnan(seconds) else seconds
    with suppress(ValueError, OverflowError):
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    return None


async def retrying(
    attempt: Callable[[], Awaitable[Answer]], *, retries: int, patience: float
) -> Answer:
    """Make an attempt and up to `retries` more, waiting twice as long each time, with jitter.

    A service that names its own waiting time is obeyed up to `patience` seconds.

    Raises:
        ModelError: that of the last attempt, with the number of attempts.
    """
    for number in range(retries + 1):
        try:
            return await attempt()
        except Transient as failed:
            last = failed
        if number == retries:
            break
        wait = min(FIRST_WAIT * 2**number, LONGEST_WAIT) * random.uniform(0.5, 1.0)
        if last.retry_after is not None:
            if last.retry_after > patience:
                raise type(last.error)(
                    f"{last.error}; it asks to wait {last.retry_after:g} s, "
                    f"longer than the limit of {patience:g} s"
                ) from None
            wait = max(wait, last.retry_after)
        await asyncio.sleep(wait)
    if retries == 0:
        raise last.error from None
    raise type(last.error)(f"{last.error}; gave up after {retries + 1} attempts") from None
