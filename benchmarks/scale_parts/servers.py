"""Fake vLLM servers, many in one process, with the part of HTTP that collab's client needs."""

from __future__ import annotations

import asyncio
import json
import random
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

TOKENS = 64
CARD = {"id": "base", "max_model_len": 2048, "parent": None}
METRICS = "vllm:num_requests_waiting 0\nvllm:num_preemptions_total 0\n"


def serve(servers: int, seconds: float, ready: Connection) -> None:
    """Answer on several local ports until the process ends. `ready` receives the ports."""
    asyncio.run(_serve(servers, seconds, ready))


async def _serve(servers: int, seconds: float, ready: Connection) -> None:
    handle = partial(_connection, seconds)
    opened = [
        await asyncio.start_server(handle, "127.0.0.1", 0, backlog=4096) for _ in range(servers)
    ]
    ready.send([server.sockets[0].getsockname()[1] for server in opened])
    await asyncio.Event().wait()


async def _connection(
    seconds: float, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Answer one request after the other, until the client disconnects."""
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            path, length = head.split(" ", 2)[1], head.partition("content-length: ")[2]
            body = await reader.readexactly(int(length.partition("\r\n")[0] or 0))
            kind, text = await _answer(path, json.loads(body or b"{}"), seconds)
            writer.write(
                f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(text)}\r\n\r\n"
                f"{text}".encode()
            )
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def _answer(path: str, body: dict[str, Any], seconds: float) -> tuple[str, str]:
    if path == "/metrics":
        return "text/plain", METRICS
    if path == "/v1/models":
        return "application/json", json.dumps({"data": [CARD]})
    if path != "/v1/completions":
        return "application/json", "{}"
    if "return_token_ids" not in body:
        logprobs = {"token_logprobs": [-1.0], "top_logprobs": [{"a": -1.0 / body["temperature"]}]}
        return "application/json", json.dumps({"choices": [{"text": "a", "logprobs": logprobs}]})
    await asyncio.sleep(seconds)
    tokens = random.choices(range(50, 1050), k=TOKENS)
    choice = {
        "text": "",
        "token_ids": tokens,
        "logprobs": {"token_logprobs": [-1.0] * TOKENS},
        "finish_reason": "length",
    }
    return "application/json", json.dumps({"choices": [choice]})
