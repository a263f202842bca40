"""The HTTP client of model servers, and server-sent events in chunks of bytes."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import httpx
import pytest

from collab.errors import ModelError
from collab.models.event_stream import event_data
from collab.models.http_client import model_client
from collab.models.vllm.server import ServerConnection

URL = "http://here/v1/"


def answering(sent: bytes, status: int = 200, encoding: str = "identity") -> httpx.AsyncClient:
    def answer(_: httpx.Request) -> httpx.Response:
        headers = {"content-encoding": encoding, "location": "http://there"}
        # A stream, because httpx would decode a plain body before the client sees it.
        return httpx.Response(status, stream=httpx.ByteStream(sent), headers=headers)

    return model_client(URL, "", base_url=URL, transport=httpx.MockTransport(answer))


async def read_events(client: httpx.AsyncClient) -> None:
    async with client.stream("GET", URL) as response:
        async for _ in event_data(response):
            pass


async def get(client: httpx.AsyncClient) -> None:
    await client.get("models")


async def ask_vllm(client: httpx.AsyncClient) -> None:
    await ServerConnection("http://here", client, key="").ask("/v1/models")


@pytest.mark.parametrize("ask", [read_events, get, ask_vllm])
@pytest.mark.parametrize("sent", [b"x" * 40, b"data: x\n" * 5, b": ping\n" * 6])
@pytest.mark.parametrize("status", [200, 307, 500])
def test_answer_size_is_limited(
    monkeypatch: pytest.MonkeyPatch,
    ask: Callable[[httpx.AsyncClient], Coroutine[Any, Any, object]],
    sent: bytes,
    status: int,
) -> None:
    monkeypatch.setattr("collab.models.http_client.MAX_ANSWER_BYTES", 39)

    async def run() -> None:
        async with answering(sent, status) as client:
            await ask(client)

    with pytest.raises(ModelError, match="here: an answer has more than 39 bytes"):
        asyncio.run(run())


@pytest.mark.parametrize("encoding", ["gzip", "gzip, gzip", "br"])
def test_compressed_answers_are_refused(encoding: str) -> None:
    async def run() -> None:
        async with answering(gzip.compress(b"x"), encoding=encoding) as client:
            await client.get(URL)

    with pytest.raises(ModelError, match="here: the server compresses its answers"):
        asyncio.run(run())


TEXT = "a\u2028b\u2029c\u0085d"
"""Line separators that JSON leaves unescaped."""


def body(*events: object) -> bytes:
    lines = [f"data: {json.dumps(event, ensure_ascii=False)}\r\n\r\n" for event in events]
    return ": a comment\n\n{}data: [DONE]\n\n".format("".join(lines)).encode()


def sending(sent: bytes) -> httpx.AsyncClient:
    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=sent, headers={"content-type": "text/event-stream"})

    return httpx.AsyncClient(transport=httpx.MockTransport(answer))


def test_lines_end_at_line_feeds_only() -> None:
    async def read() -> list[object]:
        async with sending(body({"n": 1}, TEXT)) as client:
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
