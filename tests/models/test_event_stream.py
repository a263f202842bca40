"""Server-sent events, as chunks of bytes from httpx."""

import asyncio
import json
from collections.abc import AsyncIterator

import httpx

from collab.models.event_stream import event_data

TEXT = "a\u2028b\u2029c\u0085d"
"""Line separators that JSON leaves unescaped."""


def body(*events: object) -> bytes:
    lines = [f"data: {json.dumps(event, ensure_ascii=False)}\r\n\r\n" for event in events]
    return ": a comment\n\n{}data: [DONE]\n\n".format("".join(lines)).encode()


def answering(sent: bytes) -> httpx.AsyncClient:
    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=sent, headers={"content-type": "text/event-stream"})

    return httpx.AsyncClient(transport=httpx.MockTransport(answer))


def test_lines_end_at_line_feeds_only() -> None:
    async def read() -> list[object]:
        async with answering(body({"n": 1}, TEXT)) as client:
            response = await client.get("http://here")
            return [json.loads(data) async for data in event_data(response)]

    assert asyncio.run(read()) == [{"n": 1}, TEXT]


def test_a_line_may_come_in_pieces_after_a_mark_of_the_encoding() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for piece in (b"\xef\xbb", b"\xbfda", b"ta: 1", b"2\nda", b"ta: 3", b"\n"):
            yield piece

    async def read() -> list[bytes]:
        response = httpx.Response(200, content=pieces())
        return [data async for data in event_data(response)]

    assert asyncio.run(read()) == [b" 12", b" 3"]
