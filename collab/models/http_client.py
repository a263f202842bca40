"""HTTP clients of model servers, with a limit on the size of an answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import httpx

from collab.errors import ModelError
from collab.loopback import is_loopback_url

MAX_ANSWER_BYTES = 64_000_000
"""Longest answer. A stream with log-probabilities has about 500 bytes per token."""


def model_client(
    url: str, key: str, *, max_idle: int | None = None, **options: Any
) -> httpx.AsyncClient:
    """Return a client for the server at `url`, which keeps `max_idle` idle connections.

    It has no limits on time and connections, because the engines have their own. Reading an answer
    that is compressed, or has more than `MAX_ANSWER_BYTES`, raises ModelError. The client follows
    no redirects, and uses no proxy from the environment for this machine's own addresses, which a
    proxy cannot reach.
    """
    host = urlsplit(url).netloc.rpartition("@")[2]
    limit = size_limit_hook(httpx, MAX_ANSWER_BYTES, lambda reason: ModelError(f"{host}: {reason}"))
    authorization = {"authorization": f"Bearer {key}"} if key else {}
    return httpx.AsyncClient(
        headers={"accept-encoding": "identity", **authorization},
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=max_idle),
        timeout=None,
        trust_env=not is_loopback_url(url),
        event_hooks={"response": [limit]},
        **options,
    )


def size_limit_hook(
    library: Any, max_bytes: int, make_error: Callable[[str], Exception]
) -> Callable[[Any], Awaitable[None]]:
    """Return a response hook for clients of `library`, httpx or httpx2, which SDKs use.

    It raises `make_error` with a reason for compressed answers and those of more than `max_bytes`.
    """

    class LimitedStream(library.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, stream: Any) -> None:
            self._stream = stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for chunk in self._stream:
                size += len(chunk)
                if size > max_bytes:
                    raise make_error(f"an answer has more than {max_bytes:,} bytes")
                yield chunk

        async def aclose(self) -> None:
            await self._stream.aclose()

    async def check(answer: Any) -> None:
        answer.stream = LimitedStream(answer.stream)
        if answer.headers.get("content-encoding", "identity") != "identity":
            reason = "the server compresses its answers without being asked; turn that off there"
            raise make_error(reason)

    return check
