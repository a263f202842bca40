"""Errors of hosted services, and the exceptions to raise for them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import isnan

from collab.errors import ContextOverflow, ModelError, ModelRefused, ModelUnavailable
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
QUOTA_KIND = "insufficient_quota"
"""Kinds of OpenAI's status 429 that another attempt cannot fix."""
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
    """Return the kind and the reason of an error in a response's body, in any of the formats of
    OpenAI's servers, without `key` in the parsed parts."""
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
    status, kind = rejection.status, rejection.kind
    message = " ".join(filter(None, (f"{peer}: {status}", kind))) + f": {rejection.reason}"
    if kind == QUOTA_KIND:
        return ModelUnavailable(message)
    if status >= 500 or kind in TRANSIENT_KINDS or status in TRANSIENT_STATUSES:
        return TransientError(ModelUnavailable(message), seconds_of(rejection.retry_after))
    if status == 413 or TOO_LONG_PATTERN.search(f"{kind} {rejection.reason}"):
        return ContextOverflow(f"{message}; shorten the prompt or the number of turns")
    if status in (401, 403):
        return ModelUnavailable(f"{message}; check {key_variable}")
    if status in (402, 404):
        return ModelUnavailable(message)
    return ModelRefused(message)
