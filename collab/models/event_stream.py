"""Reads a server's answers: whole, or as the data of server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from collab.errors import ModelError

if TYPE_CHECKING:
    from httpx import Response

DONE = b"[DONE]"
MOST_BYTES = 64_000_000
"""Longest answer. A stream with log-probabilities has about 500 bytes per token."""


async def whole_answer(response: Response) -> bytes:
    """Return the body of an answer.

    Raises:
        ModelError: the answer is larger than `MOST_BYTES`.
    """
    return b"".join([chunk async for chunk in _chunks(response)])


async def event_data(response: Response) -> AsyncIterator[bytes]:
    """Yield the data of each event, except the word [DONE] that ends some streams.

    Lines end at line feeds only, because JSON may contain other separators.

    Raises:
        ModelError: the stream is larger than `MOST_BYTES`.
    """
    begun: list[bytes] = []
    async for chunk in _chunks(response):
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            field, _, value = b"".join([*begun, line]).partition(b":")
            begun.clear()
            if field == b"data" and value.strip() != DONE:
                yield value
        begun.append(rest)


async def _chunks(response: Response) -> AsyncIterator[bytes]:
    size = 0
    async for chunk in response.aiter_bytes():
        size += len(chunk)
        if size > MOST_BYTES:
            raise ModelError(
                f"the server at {response.url.host} sent more than {MOST_BYTES:,} bytes in one"
                " answer"
            )
        yield chunk
