"""Errors of hosted services, and the exceptions to raise for them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import isnan

from collab.errors import (
    ContextOverflow,
    ModelDenied,
    ModelError,
    ModelRefused,
    ModelUnavailable,
)
from collab.models.keys import redact
from collab.recipe.documents import parse_json


class TransientError(Exception):
    """A failed attempt that may succeed later. Otherwise `error` is raised."""

    def __init__(self, error: ModelError, retry_after: float | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.retry_after = retry_after
        """Seconds that the service asks to wait."""


def seconds_of(retry_after: str) -> float | None:
    """Return the seconds in a `retry-after` header, or None for a date and for anything else."""
    try:
        seconds = float(retry_after)
    except ValueError:
        return None
    return None if isnan(seconds) else seconds


TRANSIENT_STATUSES = {408, 409, 425, 429}
TRANSIENT_KINDS = {"api_error", "overloaded_error", "rate_limit_error", "timeout_error"}
QUOTA_PATTERN = re.compile(r"insufficient[_ ]quota|credit balance", re.IGNORECASE)
"""Kind of OpenAI's status 429 that another attempt cannot fix, and reason of Anthropic's 400."""
KIND_PATTERN = re.compile(r"[\w.-]{1,60}", re.ASCII)
"""Kinds that a log may show. Others may be text."""
TOO_LONG_PATTERN = re.compile(
    r"prompt is too long|context.?(length|size|window|limit)|max(imum)?.model.len", re.IGNORECASE
)


def is_html(text: str) -> bool:
    """Return True if the response is a web page, as from a server or proxy that serves no
    models."""
    return text.lstrip("\ufeff \t\r\n")[:1] == "<"


def html_error(url: str) -> str:
    """Return an error text for a web page that came from `url` instead of an answer."""
    return f"it answered with HTML; is the URL right ({url})?"


def parse_error_body(text: str, key: str) -> tuple[str, str]:
    """Return the kind and the reason of an error in the body of a response from an OpenAI server.

    The parsed parts do not contain `key`.
    """
    try:
        body = redact(parse_json(text), key)
    except ValueError:
        return "", text
    error = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(error, dict):
        return "", str(error)
    kinds = (error.get("code"), error.get("type"))
    kind = next((kind for kind in kinds if isinstance(kind, str)), "")
    reason = str(error.get("message") or error.get("detail") or text)
    param = error.get("param")
    return kind, f"{reason} ({param})" if param and str(param) not in reason else reason


@dataclass(eq=False)
class Rejection(Exception):
    """An error status, or an error event within a stream, without the key."""

    status: int
    kind: str
    """The service's own name for the error."""
    reason: str
    retry_after: str = ""


def error_of(peer: str, rejection: Rejection, key_variable: str) -> ModelError | TransientError:
    """Return the exception for a request that `peer` rejected. Errors that may pass are wrapped in
    `TransientError`.

    `key_variable` names the environment variable of the API key, for the message.
    """
    status, kind, words = rejection.status, rejection.kind, f"{rejection.kind} {rejection.reason}"
    summary = f"{peer}: {status}"
    message = f"{summary} {kind}".rstrip() + f": {rejection.reason}"
    if KIND_PATTERN.fullmatch(kind):
        summary += f" {kind}"
    is_quota = status == 402 or QUOTA_PATTERN.search(words) is not None
    if not is_quota and (status >= 500 or kind in TRANSIENT_KINDS or status in TRANSIENT_STATUSES):
        return TransientError(ModelUnavailable(message, summary), seconds_of(rejection.retry_after))
    if status == 413 or TOO_LONG_PATTERN.search(words):
        return ContextOverflow(f"{message}; shorten the prompt or the number of turns", summary)
    if is_quota or status in (401, 403, 404):
        target = "the model's name and the address" if status == 404 else key_variable
        remedy = f"check {'the account' if is_quota else target}"
        return ModelDenied(f"{message}; {remedy}", f"{summary}; {remedy}")
    return ModelRefused(message, summary)
