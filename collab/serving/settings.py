"""How teams are served: who may ask, for how much, and for how long."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from collab.errors import RecipeError
from collab.loopback import is_loopback

History = Literal["refuse", "join"]


@dataclass(frozen=True)
class Settings:
    """The options of `collab serve`, and of an application that mounts teams."""

    keys: tuple[str, ...] = field(default=(), repr=False)
    """Any of them opens every path but `/health`; without one nobody is asked for a key."""
    concurrency: int | None = None
    """Episodes at the same time. Default: as many as `collab run` plays, the recipe's."""
    queue: int = 256
    """Requests that wait for their turn; further ones are refused with 429."""
    seconds: float = 600.0
    """Limit of one episode."""
    max_body: int = 1_000_000
    """Bytes of a request."""
    client_seconds: float = 30.0
    """Limit for a client to send its request, and to take the end of its answer."""
    ping_seconds: float = 15.0
    """A stream that is silent for so long says so, since proxies cut silent ones."""
    details: bool = True
    """Whether answers have the object `collab`, with what each agent wrote."""
    allow_sampling: bool = False
    """Whether a request may choose `temperature` and `top_p`."""
    history: History = "refuse"
    """Earlier messages of a conversation when no template names `conversation`: refuse them, or
    `join` them before the user's text."""
    field: str | None = None
    """The field of the problem that the user's text fills. Default: the only one that the
    templates use, else `prompt`."""
    run_code: bool = False
    """Whether feedback may run what agents wrote, in the sandbox."""
    mcp: bool = False
    """Whether `/mcp` speaks MCP, with each team as a tool."""
    record: Path | None = None
    """A folder that episodes are appended to, with what users said. Default: nothing is kept."""
    hosts: tuple[str, ...] | None = None
    """Names that the server may be called by, against pages that give a name of theirs this
    machine's address. None asks for no name."""
    origins: tuple[str, ...] = ()
    """Pages that a browser may ask from; all others are refused."""


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
