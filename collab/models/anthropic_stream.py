"""Reads one streamed answer of the Messages API, and names what can go wrong with it."""

from __future__ import annotations

import email.utils
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import anthropic

from collab.errors import ContextOverflow, ModelError, ModelRefused, ModelUnavailable
from collab.models.base import Progress, Request
from collab.models.retry import Transient

CHARACTERS_PER_TOKEN = 4
"""For progress: the API counts tokens only at the end."""

TRANSIENT_STATUS = {408, 409, 429}
TRANSIENT_TYPES = {"api_error", "overloaded_error", "rate_limit_error", "timeout_error"}
UNAVAILABLE_STATUS = {401, 402, 404}


@dataclass
class Reply:
    """What has come of an answer."""

    text: str = ""
    model: str = ""
    stop_reason: str = ""
    begun: bool = False
    prompt_tokens: int = 0
    """Neither read from the cache nor written to it."""
    cache_read: int = 0
    cache_written: int = 0
    new_tokens: int = 0

    async def read(
        self, client: Any, body: dict[str, Any], request: Request, progress: Progress | None
    ) -> None:
        """Send `body` and take the answer to its end.

        Raises ModelRefused when Claude declines, Transient when the stream ends too early.
        """
        stream = await client.messages.create(**body, stream=True)
        async with stream:
            async for event in stream:
                try:
                    text = self._take(event)
                except (AttributeError, TypeError) as error:
                    raise ValueError(f"an event of an unknown shape: {error}") from error
                if text and progress:
                    progress(request, len(self.text) // CHARACTERS_PER_TOKEN, text)
        if self.stop_reason == "refusal":
            raise ModelRefused(f"{body['model']} declined to answer (stop_reason refusal)")
        if not self.stop_reason:
            raise Transient(ModelUnavailable(f"{body['model']}: the answer broke off"))

    def _take(self, event: Any) -> str:
        """Add one event; returns the text that it brought."""
        if event.type == "message_start":
            usage = event.message.usage
            self.begun, self.model = True, event.message.model
            self.prompt_tokens = usage.input_tokens
            self.cache_read = usage.cache_read_input_tokens or 0
            self.cache_written = usage.cache_creation_input_tokens or 0
        elif event.type == "content_block_delta" and event.delta.type == "text_delta":
            text: str = event.delta.text
            self.text += text
            return text
        elif event.type == "message_delta":
            self.stop_reason = event.delta.stop_reason or ""
            self.new_tokens = event.usage.output_tokens
        return ""


@contextmanager
def errors_named(model: str, key: str) -> Iterator[None]:
    """Turn the SDK's errors into ours; the `key` is kept out of every message."""
    try:
        yield
    except (ModelError, Transient):
        raise
    except anthropic.APIStatusError as error:
        raise _of_status(model, error, key) from None
    except (anthropic.APIError, OSError, ValueError) as error:
        raise Transient(ModelUnavailable(f"{model}: {_reason(error, key)}")) from None


def _of_status(model: str, error: anthropic.APIStatusError, key: str) -> Exception:
    status, kind = error.status_code, _kind(error)
    message = f"{model}: {status} {kind}".rstrip() + f": {_reason(error, key)}"
    if status >= 500 or kind in TRANSIENT_TYPES or status in TRANSIENT_STATUS:
        refused = status == 429 or kind == "rate_limit_error"
        failure = ModelRefused(message) if refused else ModelUnavailable(message)
        return Transient(failure, _retry_after(error))
    if "prompt is too long" in message:
        return ContextOverflow(f"{message}; shorten the prompt or the number of turns")
    if status == 401:
        return ModelUnavailable(f"{message}; check ANTHROPIC_API_KEY")
    if status in UNAVAILABLE_STATUS:
        return ModelUnavailable(message)
    return ModelRefused(message)


def _kind(error: anthropic.APIStatusError) -> str:
    """The API's own name of the error; in a stream it comes under status 200."""
    return str(_body(error).get("type", ""))


def _body(error: Exception) -> dict[str, Any]:
    """What the API says of an error."""
    body = getattr(error, "body", None)
    inner = body.get("error") if isinstance(body, dict) else None
    return inner if isinstance(inner, dict) else {}


def _reason(error: Exception, key: str) -> str:
    """One line that says what happened."""
    words = str(_body(error).get("message") or error or type(error).__name__)
    if error.__cause__ and str(error.__cause__) not in words:
        words += f" ({error.__cause__})"
    return " ".join(words.replace(key, "[key]").split())[:300]


def _retry_after(error: anthropic.APIStatusError) -> float | None:
    """Seconds, from a header of seconds or a date."""
    value = error.response.headers.get("retry-after", "")
    try:
        return float(value)
    except ValueError:
        date = email.utils.parsedate_tz(value)
        return max(0.0, email.utils.mktime_tz(date) - time.time()) if date else None
