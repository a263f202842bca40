"""The HTTP client of model servers."""

import asyncio
import gzip
from collections.abc import Callable, Coroutine
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
