"""Reading a request's body: never more than the limit, and never for longer."""

from __future__ import annotations

import asyncio

from starlette.requests import Request

from collab.serving.refusal import Refused


async def read_body(request: Request, most: int, seconds: float) -> bytes:
    """The whole body.

    Raises:
        Refused: it is no JSON by its type, larger than `most` bytes, or takes longer than
            `seconds`.
        starlette.requests.ClientDisconnect: the client has left.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refused(415, None, "send the header 'content-type: application/json'")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and len(length) < 20 and int(length) > most:
        raise _too_large(most)
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                body += chunk
                if len(body) > most:
                    raise _too_large(most)
    except TimeoutError:
        raise Refused(408, "timeout", f"the body did not come within {seconds:g} s") from None
    return bytes(body)


def _too_large(most: int) -> Refused:
    return Refused(413, "request_too_large", f"the body has more than {most} bytes, the limit")
