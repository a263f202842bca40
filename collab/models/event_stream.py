"""Reads the data of server-sent events."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from httpx import Response

DONE = b"[DONE]"


async def event_data(response: Response) -> AsyncIterator[bytes]:
    """Yield the data of each event, except the word [DONE] that ends some streams.

    Lines end at line feeds only, because JSON may contain other separators.
    """
    pending: list[bytes] = []
    async for chunk in response.aiter_bytes():
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            field, _, value = b"".join([*pending, line]).partition(b":")
            pending.clear()
            if field.removeprefix(BOM_UTF8) == b"data" and value.strip() != DONE:
                yield value
        pending.append(rest)
