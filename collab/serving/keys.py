"""Whom a server is open to: keys of its own, or this machine only."""

from __future__ import annotations

import os
from collections.abc import Sequence

from collab.errors import RecipeError
from collab.loopback import is_loopback

VARIABLE = "COLLAB_API_KEYS"


def read_keys(given: Sequence[str]) -> tuple[str, ...]:
    """The keys of the command line and of the environment.

    Raises:
        RecipeError: one that no header can carry; it is not repeated.
    """
    keys = [*given, *os.environ.get(VARIABLE, "").split(",")]
    keys = [key.strip() for key in keys]
    if any(not (key.isascii() and key.isprintable()) or " " in key for key in keys):
        raise RecipeError(
            f"a key of --key or {VARIABLE} has spaces, line breaks or characters beyond ASCII;"
            " make one of letters and digits"
        )
    if any(not key for key in map(str.strip, given)):
        raise RecipeError("--key is empty; give a key, or leave it out to serve this machine only")
    return tuple(dict.fromkeys(key for key in keys if key))


def local_names(host: str, keys: Sequence[str]) -> tuple[str, ...] | None:
    """The names that a server without keys answers to; None where a key is asked for instead.

    Raises:
        RecipeError: it has no key, and others than this machine could reach it.
    """
    if keys:
        return None
    if not is_loopback(host):
        raise RecipeError(
            f"--host {host} is open to other machines, and there is no key; set {VARIABLE}, or"
            " listen at 127.0.0.1"
        )
    return ("localhost", "127.0.0.1", "::1", host)
