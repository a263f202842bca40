"""Settings of served teams: access, size limits and time limits."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from collab.distribution import import_optional
from collab.errors import RecipeError
from collab.loopback import is_loopback
from collab.recipe.base import Spec

History = Literal["refuse", "join"]

_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#@*\sA-Z]+")
"""The header `origin` of a browser: a scheme, a host and perhaps a port."""


TextList = Annotated[tuple[str, ...], BeforeValidator(lambda v: (v,) if isinstance(v, str) else v)]
"""Texts, of which a single one may be given as it is."""


def setting(default: Any, text: str, *, least: float | None = None) -> Any:
    """Return a setting with the help text of its option, and its smallest value."""
    return Field(default=default, description=text, ge=least)


class Settings(Spec):
    """The options of `collab serve`, and of an application that mounts teams."""

    keys: TextList = Field(default=(), repr=False)
    """Keys that give access to every path but `/health`. Without any, no key is needed."""
    concurrency: int | None = setting(
        None, "Number of parallel episodes. Default: the recipe's concurrency.", least=1
    )
    queue: int = setting(256, "Requests that may wait; further requests get status 429.", least=0)
    seconds: float = setting(600.0, "Time limit of an episode, in seconds.", least=0.001)
    max_body: int = setting(1_000_000, "Size limit of a request, in bytes.", least=1)
    client_seconds: float = setting(
        30.0,
        "Time limit for a client to send its request, and to receive the end of its answer.",
        least=0.001,
    )
    ping_seconds: float = setting(
        15.0,
        "Seconds of silence after which a stream sends a comment, so that proxies keep it open.",
        least=0.001,
    )
    details: bool = True
    """True if answers have each agent's response, as reasoning and in the object `collab`."""
    allow_sampling: bool = setting(False, "Let requests set temperature and top_p.")
    history: History = setting(
        "refuse",
        "Earlier messages of a conversation, if no template reads them: refuse them, or put them"
        " before the new one.",
    )
    field: str | None = setting(
        None,
        "Task field that gets the user's text. Default: the only field if there is one field,"
        " otherwise prompt.",
    )
    run_code: bool = setting(False, "Let feedback run the agents' code in the sandbox.")
    mcp: bool = False
    """True if `/mcp` serves MCP, with each team as a tool."""
    record: Path | None = setting(
        None,
        "Save all episodes in this folder, with the users' prompts. Default: nothing is saved.",
    )
    hosts: TextList | None = None
    """Host names that requests may use, against DNS rebinding. None allows any name."""
    origins: TextList = ()
    """Origins from which browsers may send requests. All others are refused."""

    def _faults(self) -> Iterator[str]:
        if not all(map(str.strip, self.keys)):
            yield (
                "an API key is empty, which would open the server to everyone; give a key, or pass"
                " no keys"
            )
        for origin in self.origins:
            if not _ORIGIN.fullmatch(origin):
                yield (
                    f"{origin!r} is not an origin; write it as browsers send it, e.g."
                    " https://example.org: lower case, with its scheme, without a path"
                )


KEYS_VARIABLE = "COLLAB_API_KEYS"


def read_keys(option_keys: Sequence[str]) -> tuple[str, ...]:
    """Return the keys from the command line and from the environment.

    Raises:
        RecipeError: a key cannot be sent in a header. The message does not include the key.
    """
    keys = [*option_keys, *os.environ.get(KEYS_VARIABLE, "").split(",")]
    keys = [key.strip() for key in keys]
    if any(not (key.isascii() and key.isprintable()) or " " in key for key in keys):
        raise RecipeError(
            f"a key of --key or {KEYS_VARIABLE} has spaces, line breaks or characters beyond ASCII;"
            " use letters and digits"
        )
    if any(not key for key in map(str.strip, option_keys)):
        raise RecipeError("--key is empty; give a key, or leave it out to serve this machine only")
    return tuple(dict.fromkeys(key for key in keys if key))


def allowed_hosts(host: str, keys: Sequence[str]) -> tuple[str, ...] | None:
    """Return the names that a server without keys answers to, or None if a key is required instead.

    Raises:
        RecipeError: no key is set, and other machines could reach the server.
    """
    if keys:
        return None
    if not is_loopback(host):
        raise RecipeError(
            f"--host {host} is open to other machines, and no key is set; set {KEYS_VARIABLE}, or"
            " listen on 127.0.0.1"
        )
    return ("localhost", "127.0.0.1", "::1", host)


def check_extras(*, mcp: bool) -> None:
    """Check that the packages of the extra `serve`, and perhaps of `mcp`, are installed.

    Raises:
        RecipeError: a package is missing.
    """
    for package in ("prometheus_client", "starlette", "uvicorn"):
        import_optional(package, "serving", "serve", RecipeError)
    if mcp:
        import_optional("mcp", "serving", "mcp", RecipeError)
