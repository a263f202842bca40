"""Reading a request's body: never more than the limit, and never for longer."""

from __future__ import annotations

import asyncio

from starlette.requests import Request

from collab.serving.refusal import Refused

LET_PASS = 100_000_000
"""Bytes over the limit that are read and dropped. A client whose connection closes while it sends
gets a reset in place of the answer."""


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
    declared = int(length) if length.isdecimal() and len(length) < 20 else 0
    if declared > most + LET_PASS:
        raise _too_large(most)
    body, passed = bytearray(), 0
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                if declared <= most and len(body) + len(chunk) <= most and not passed:
                    body += chunk
                elif (passed := passed + len(chunk)) > LET_PASS:
                    break
    except TimeoutError:
        if not passed:
            told = f"the body did not come within {seconds:g} s"
            raise Refused(408, "timeout", told) from None
    if passed:
        raise _too_large(most)
    return bytes(body)


def _too_large(most: int) -> Refused:
    return Refused(413, "request_too_large", f"the body has more than {most} bytes, the limit")
