"""The HTTP client of model servers. It limits the size of an answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from httpx import AsyncByteStream, AsyncClient, Limits, Request, Response

from collab.errors import ModelError
from collab.loopback import leads_to_loopback

MOST_BYTES = 64_000_000
"""Longest answer. A stream with log-probabilities has about 500 bytes per token."""


class ModelClient(AsyncClient):
    """A client without limits on time and connections, because the engines have their own.

    Reading an answer of more than `MOST_BYTES` raises ModelError. So does an answer that is
    compressed twice, or by another method than asked for. The client follows no redirects, and uses
    no proxy from the environment for this machine's own addresses, which a proxy cannot reach.
    """

    def __init__(self, url: str, key: str = "", *, most_idle: int | None = None, **options: Any):
        """Prepare a client for the server at `url`, which keeps `most_idle` idle connections."""
        given = {"authorization": f"Bearer {key}"} if key else {}
        super().__init__(
            headers={"accept-encoding": "gzip, deflate", **given},
            limits=Limits(max_connections=None, max_keepalive_connections=most_idle),
            timeout=None,
            trust_env=not leads_to_loopback(url),
            **options,
        )

    async def send(self, request: Request, *, stream: bool = False, **options: Any) -> Response:
        response = _limited(await super().send(request, stream=True, **options))
        if not stream:
            try:
                await response.aread()
            finally:
                await response.aclose()
        return response


def limit_of(most: int, refused: Callable[[str], Exception]) -> Callable[[Any], Awaitable[None]]:
    """Return a response hook for clients of httpx2, which SDKs use.

    It raises `refused` with a reason for answers of more than `most` bytes and compressed ones.
    """
    import httpx2

    class Limited(httpx2.AsyncByteStream):
        def __init__(self, stream: Any) -> None:
            self._stream = stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for chunk in self._stream:
                size += len(chunk)
                if size > most:
                    raise refused(f"an answer has more than {most:,} bytes")
                yield chunk

        async def aclose(self) -> None:
            await self._stream.aclose()

    async def check(answer: Any) -> None:
        answer.stream = Limited(answer.stream)
        if answer.headers.get("content-encoding", "identity") != "identity":
            raise refused("the server compresses its answers without being asked")

    return check


def _limited(response: Response) -> Response:
    """Return the response with a limit on its decoded body."""
    headers = [
        (name, value)
        for name, value in response.headers.raw
        if name.lower() not in (b"content-encoding", b"content-length")
    ]
    return Response(
        response.status_code,
        headers=headers,
        stream=_Limited(response),
        request=response.request,
        extensions=response.extensions,
    )


class _Limited(AsyncByteStream):
    def __init__(self, response: Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        encoding = self._response.headers.get("content-encoding", "").lower()
        if "," in encoding or encoding in ("br", "zstd"):  # httpx expands these without a limit
            raise ModelError(
                f"the server at {self._response.url.host} compressed its answer by {encoding:.60},"
                " and was asked for gzip or none"
            )
        size = 0
        async for chunk in self._response.aiter_bytes():
            size += len(chunk)
            if size > MOST_BYTES:
                raise ModelError(
                    f"the server at {self._response.url.host} sent more than {MOST_BYTES:,} bytes"
                    " in one answer"
                )
            yield chunk

    async def aclose(self) -> None:
        await self._response.aclose()
