"""Keys of services: read from the environment, and kept out of every message."""

from __future__ import annotations

import os
from typing import Any

from collab.errors import ModelUnavailable

LONGEST = 300
SECRET = 12
"""Characters that a key has at least; `EMPTY`, `none` and the like are words of other texts too."""
HIDDEN = "[key]"


def read_key(variable: str) -> str:
    """The key that an environment variable holds, "" without one.

    Raises ModelUnavailable for what no HTTP header can carry: its refusal would quote the key.
    """
    key = os.environ.get(variable, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise ModelUnavailable(
            f"{variable} holds no key: it has line breaks within, or characters beyond ASCII; "
            "set it anew"
        )
    return key


def without_key(text: str, key: str) -> str:
    """One line of limited length that does not hold the key."""
    hidden = text.replace(key, HIDDEN) if key else text
    return " ".join(hidden.split())[:LONGEST]


def unkeyed(value: Any, key: str) -> Any:
    """What a service said, a text or parsed JSON, with the key hidden wherever it stands."""
    if len(key) < SECRET:
        return value
    if isinstance(value, str):
        return value.replace(key, HIDDEN)
    if isinstance(value, list):
        return [unkeyed(item, key) for item in value]
    if isinstance(value, dict):
        return {unkeyed(name, key): unkeyed(item, key) for name, item in value.items()}
    return value


class Unkeyed:
    """Hides the key in a text that comes in pieces, and may be cut within the key."""

    def __init__(self, key: str) -> None:
        self._key = key if len(key) >= SECRET else ""
        self._kept = ""

    def __call__(self, piece: str) -> str:
        """What can be told by now; the beginning of a key is kept until it is known to be none."""
        text = (self._kept + piece).replace(self._key, HIDDEN) if self._key else piece
        most = min(len(self._key) - 1, len(text))
        kept = next((n for n in range(most, 0, -1) if text.endswith(self._key[:n])), 0)
        self._kept = text[len(text) - kept :]
        return text[: len(text) - kept]

    def rest(self) -> str:
        """What was kept, at the end of the text."""
        kept, self._kept = self._kept, ""
        return kept
