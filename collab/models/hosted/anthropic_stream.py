"""Reads one streamed answer of the Messages API, and names what can go wrong with it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import anthropic

from collab.errors import ModelError, ModelRefused, ModelUnavailable
from collab.models.base import Progress, Request
from collab.models.hosted.engine import ODD_SHAPE, Reply, count
from collab.models.hosted.errors import Rejection, error_of, is_page, page_at
from collab.models.hosted.retry import Transient
from collab.models.keys import without_key

CHARACTERS_PER_TOKEN = 4
"""Characters that count as one token for progress: the API counts tokens only at the end."""


async def read(
    client: Any, body: dict[str, Any], reply: Reply, request: Request, progress: Progress | None
) -> None:
    """Send `body` and take the answer to its end.

    Raises ModelRefused when Claude declines, Transient when the stream ends too early.
    """
    stream = await client.messages.create(**body, stream=True)
    async with stream:
        async for event in _events(stream):
            try:
                text = _take(reply, event)
            except ODD_SHAPE as error:
                raise ValueError(f"an event of an unknown shape: {error}") from error
            if text and progress:
                progress(request, len(reply.text) // CHARACTERS_PER_TOKEN, text)
    if reply.stop_reason == "refusal":
        raise ModelRefused(f"{body['model']} declined to answer (stop_reason refusal)")
    if not reply.begun:
        page = "html" in stream.response.headers.get("content-type", "")
        why = f": {page_at(str(client.base_url))}" if page else " of the Messages API"
        raise ValueError(f"the answer holds no event{why}")
    if not reply.stop_reason:
        raise ValueError("the answer broke off")


async def _events(stream: Any) -> AsyncIterator[Any]:
    """Raise errors of the SDK's HTTP library within a stream as the SDK's own connection error."""
    try:
        async for event in stream:
            yield event
    except anthropic.APIError:
        raise
    except Exception as error:
        raise ConnectionError(str(error) or type(error).__name__) from None


def _take(reply: Reply, event: Any) -> str:
    """Add one event; returns the text that it brought."""
    if event.type == "message_start":
        usage = event.message.usage
        reply.begun, reply.model = True, event.message.model
        reply.prompt_tokens = count(usage.input_tokens)
        reply.cache_read = count(usage.cache_read_input_tokens)
        reply.cache_written = count(usage.cache_creation_input_tokens)
    elif event.type == "content_block_delta" and event.delta.type == "text_delta":
        text: str = event.delta.text
        reply.text += text
        return text
    elif event.type == "content_block_start" and event.content_block.type == "tool_use":
        call = reply.call(event.index)
        call.id, call.name = event.content_block.id, event.content_block.name
    elif event.type == "content_block_delta" and event.delta.type == "input_json_delta":
        reply.call(event.index).arguments += event.delta.partial_json
    elif event.type == "message_delta":
        reply.stop_reason = event.delta.stop_reason or ""
        reply.new_tokens = count(event.usage.output_tokens)
        reply.counted = True
    return ""


@contextmanager
def errors_named(peer: str, key: str) -> Iterator[None]:
    """Turn the SDK's errors into ours; the `key` is kept out of every message."""
    try:
        yield
    except (ModelError, Transient):
        raise
    except anthropic.APIStatusError as error:
        raise error_of(peer, _rejection(error, key), "ANTHROPIC_API_KEY") from None
    except (anthropic.APIError, OSError, ValueError) as error:
        raise Transient(ModelUnavailable(f"{peer}: {_reason(error, key)}")) from None


def _rejection(error: anthropic.APIStatusError, key: str) -> Rejection:
    """What the API refused. Within a stream the status is 200, and `kind` says what went wrong."""
    return Rejection(
        status=error.status_code,
        kind=without_key(str(_body(error).get("type", "")), key),
        reason=_reason(error, key),
        retry_after=error.response.headers.get("retry-after", ""),
    )


def _body(error: Exception) -> dict[str, Any]:
    """What the API says of an error."""
    body = getattr(error, "body", None)
    inner = body.get("error") if isinstance(body, dict) else None
    return inner if isinstance(inner, dict) else {}


def _reason(error: Exception, key: str) -> str:
    """The error's message, in one line."""
    words = str(_body(error).get("message") or error or type(error).__name__)
    if is_page(words) and isinstance(error, anthropic.APIStatusError):
        return page_at(str(error.request.url).removesuffix("/v1/messages"))
    if error.__cause__ and str(error.__cause__) not in words:
        words += f" ({error.__cause__})"
    return without_key(words, key)
