"""The HTTP client of model servers. It limits the size of an answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from httpx import AsyncByteStream, AsyncClient, Limits, Request, Response

from collab.errors import ModelError
from collab.loopback import is_loopback_url

MAX_ANSWER_BYTES = 64_000_000
"""Longest answer. A stream with log-probabilities has about 500 bytes per token."""


class ModelClient(AsyncClient):
    """A client without limits on time and connections, because the engines have their own.

    Reading an answer of more than `MAX_ANSWER_BYTES` raises ModelError. So does an answer that is
    compressed twice, or by another method than asked for. The client follows no redirects, and uses
    no proxy from the environment for this machine's own addresses, which a proxy cannot reach.
    """

    def __init__(self, url: str, key: str = "", *, max_idle: int | None = None, **options: Any):
        """Prepare a client for the server at `url`, which keeps `max_idle` idle connections."""
        authorization = {"authorization": f"Bearer {key}"} if key else {}
        super().__init__(
            headers={"accept-encoding": "gzip, deflate", **authorization},
            limits=Limits(max_connections=None, max_keepalive_connections=max_idle),
            timeout=None,
            trust_env=not is_loopback_url(url),
            **options,
        )

    async def send(self, request: Request, *, stream: bool = False, **options: Any) -> Response:
        response = _limit_body(await super().send(request, stream=True, **options))
        if not stream:
            try:
                await response.aread()
            finally:
                await response.aclose()
        return response


def size_limit_hook(
    max_bytes: int, make_error: Callable[[str], Exception]
) -> Callable[[Any], Awaitable[None]]:
    """Return a response hook for clients of httpx2, which SDKs use.

    It raises `make_error` with a reason for compressed answers and those of more than `max_bytes`.
    """
    import httpx2

    class LimitedStream(httpx2.AsyncByteStream):
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
            raise make_error("the server compresses its answers without being asked")

    return check


def _limit_body(response: Response) -> Response:
    """Return the response with a limit on its decoded body."""
    headers = [
        (name, value)
        for name, value in response.headers.raw
        if name.lower() not in (b"content-encoding", b"content-length")
    ]
    return Response(
        response.status_code,
        headers=headers,
        stream=_LimitedStream(response),
        request=response.request,
        extensions=response.extensions,
    )


class _LimitedStream(AsyncByteStream):
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
            if size > MAX_ANSWER_BYTES:
                raise ModelError(
                    f"the server at {self._response.url.host} sent more than"
                    f" {MAX_ANSWER_BYTES:,} bytes in one answer"
                )
            yield chunk

    async def aclose(self) -> None:
        await self._response.aclose()
