"""API keys: read from the environment, and kept out of every message."""

from __future__ import annotations

import os
from typing import Any

from collab.errors import ModelUnavailable

MAX_LINE_LENGTH = 300
MIN_SECRET_LENGTH = 12
"""Minimum length of a key that counts as secret. Short keys such as `EMPTY` also occur
elsewhere.
"""
KEY_PLACEHOLDER = "[key]"


def read_key(variable: str) -> str:
    """Return the key in an environment variable, or "" if the variable is not set.

    Raises:
        ModelUnavailable: no HTTP header can hold the value. Without this check, the HTTP client's
            error would quote the key.
    """
    key = os.environ.get(variable, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise ModelUnavailable(
            f"{variable} does not hold a key: it contains line breaks or non-ASCII characters; set"
            " it again"
        )
    return key


def redact_line(text: str, key: str) -> str:
    """Return the text on one line of limited length, without the key."""
    redacted = text.replace(key, KEY_PLACEHOLDER) if key else text
    return " ".join(redacted.split())[:MAX_LINE_LENGTH]


def redact(value: Any, key: str) -> Any:
    """Return a response, a string or parsed JSON, with the key replaced everywhere.

    A key shorter than `MIN_SECRET_LENGTH` stays, because ordinary text could contain it.
    """
    if len(key) < MIN_SECRET_LENGTH:
        return value
    if isinstance(value, str):
        return value.replace(key, KEY_PLACEHOLDER)
    if isinstance(value, list):
        return [redact(item, key) for item in value]
    if isinstance(value, dict):
        return {redact(name, key): redact(item, key) for name, item in value.items()}
    return value


class Redactor:
    """Removes the key from a string that arrives in pieces. A piece may end within the key."""

    def __init__(self, key: str) -> None:
        self._key = key if len(key) >= MIN_SECRET_LENGTH else ""
        self._kept = ""

    def __call__(self, piece: str) -> str:
        """Return the text that is safe to show, and hold back a possible beginning of the key."""
        text = (self._kept + piece).replace(self._key, KEY_PLACEHOLDER) if self._key else piece
        limit = min(len(self._key) - 1, len(text))
        kept = next((n for n in range(limit, 0, -1) if text.endswith(self._key[:n])), 0)
        self._kept = text[len(text) - kept :]
        return text[: len(text) - kept]

    def flush(self) -> str:
        """Return the text that was held back, at the end of the stream."""
        kept, self._kept = self._kept, ""
        return kept
