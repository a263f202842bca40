"""Which of several servers a request goes to: the one that read its prompt, unless it is full."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Protocol, TypeVar

from collab.models.base import Call

ROOM = 1.25
"""How many times the mean a server may have under way and still be sent more."""


class Loaded(Protocol):
    """A server, by its address, with so many requests under way."""

    @property
    def url(self) -> str: ...
    @property
    def in_flight(self) -> int: ...


S = TypeVar("S", bound=Loaded)


def prefix_key(call: Call, adapter: str) -> str:
    """What requests have in common whose prompts begin alike and are read with the same weights."""
    return f"{call.task}|{call.agent}|{adapter}"


def route(servers: Sequence[S], key: str) -> S:
    """The server for requests of `key`, by rendezvous hashing.

    A server that comes or goes moves its own requests alone. One with a quarter more under way than
    the mean is passed over.
    """
    most = ROOM * sum(server.in_flight for server in servers) / len(servers)
    free = [server for server in servers if server.in_flight <= most]
    return min(free, key=lambda server: _score(server.url, key))


def _score(url: str, key: str) -> bytes:
    return blake2b(f"{url}|{key}".encode(), digest_size=8).digest()
