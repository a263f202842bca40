"""Keys of services: read from the environment, and kept out of every message."""

from __future__ import annotations

import os

from collab.errors import ModelUnavailable

LONGEST = 300


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
    hidden = text.replace(key, "[key]") if key else text
    return " ".join(hidden.split())[:LONGEST]
