"""vLLM servers that share the load; a lost one is awaited, and gets its adapters again."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol, TypeVar

from collab.errors import CollabError, ModelTimeout, ModelUnavailable
from collab.loopback import leads_to_loopback
from collab.models.keys import read_key
from collab.models.vllm.adapter_store import Version
from collab.models.vllm.backend import Capacity, Completion, GenerationRequest
from collab.models.vllm.server import Server, ServerLost
from collab.recipe.model import VLLMModel

ROOM = 1.25
"""Load limit relative to the mean, above which a server gets no new requests."""


class Loaded(Protocol):
    """A server's address and its number of requests in progress."""

    @property
    def url(self) -> str: ...
    @property
    def in_flight(self) -> int: ...


S = TypeVar("S", bound=Loaded)


def route(servers: Sequence[S], key: str) -> S:
    """Choose the server for requests of `key`, by rendezvous hashing.

    If a server is added or removed, only its own requests move. A server with a quarter more
    requests in progress than the mean is skipped.
    """
    most = ROOM * sum(server.in_flight for server in servers) / len(servers)
    free = [server for server in servers if server.in_flight <= most]
    return min(free, key=lambda server: _score(server.url, key))


def _score(url: str, key: str) -> bytes:
    return blake2b(f"{url}|{key}".encode(), digest_size=8).digest()


KEY = "VLLM_API_KEY"
LOOK_SECONDS = 0.5
"""Seconds between two looks at a server that is not there."""
ATTEMPTS = 4
"""Attempts at one response or adapter while servers are being lost."""
KEPT_IDLE = 20
"""Idle connections to one server that stay open."""
LAG_SECONDS = 60.0
"""Seconds for which a new adapter on a shared disk may stay invisible to a server."""


class Servers:
    """All servers in a recipe; `route` picks one per request."""

    context: int
    wants_zero_adapter = True
    """True, since servers do not say which device they run on."""

    def __init__(self, spec: VLLMModel) -> None:
        """Raises ModelUnavailable for a key that cannot be sent."""
        self._spec = spec
        self._key = read_key(KEY)
        self._clients: list[Any] = []
        self._servers: list[Server] = []
        self._trouble: dict[Server, str] = {}
        """Reasons why servers cannot be used now."""
        self._back = asyncio.Event()
        self._watchers: set[asyncio.Task[None]] = set()
        self._lost: list[str] = []
        """Warnings about servers lost since `warnings` was called."""

    async def open(self, folder: Path, capacity: Capacity) -> None:  # noqa: ARG002
        if self._servers:
            return
        if not self._clients:
            self._clients = list(self._connect())
        limit, key = self._spec.seconds, self._key
        lag = LAG_SECONDS if self._spec.adapter_folder else 0.0
        places = zip(self._spec.servers, self._clients, strict=True)
        servers = [Server(url, client, limit, key, lag) for url, client in places]
        await self._meet_all(servers)
        self._servers = servers
        self.context = min(self._spec.context or sys.maxsize, *(s.context for s in servers))

    async def complete(self, request: GenerationRequest) -> Completion:
        for _ in range(ATTEMPTS):
            server = route(await self._live(), request.key)
            try:
                return await server.complete(request)
            except ServerLost as lost:
                self._lose(server, lost)
                last = f"{server.url}: {lost}"
        raise _exhausted("one response", last)

    async def load(self, version: Version) -> None:
        """Load an adapter on every available server; others get it with their first request."""
        for _ in range(ATTEMPTS):
            live = await self._live()
            outcomes = await asyncio.gather(
                *(server.load(version) for server in live), return_exceptions=True
            )
            for server, outcome in zip(live, outcomes, strict=True):
                if isinstance(outcome, ServerLost):
                    self._lose(server, outcome)
                    last = f"{server.url}: {outcome}"
                elif isinstance(outcome, BaseException):
                    raise outcome
            if any(outcome is None for outcome in outcomes):
                return
        raise _exhausted(f"loading adapter {version.name}", last)

    async def unload(self, version: Version) -> None:
        for server in self._servers:
            try:
                await server.unload(version)
            except (ServerLost, CollabError):
                continue  # it has forgotten all of them, or keeps one too many

    def warnings(self) -> tuple[str, ...]:
        lost, self._lost = self._lost, []
        return tuple(lost)

    async def sleep(self) -> None:
        """Do nothing: servers keep their memory, since they run elsewhere, or for others too."""

    async def aclose(self) -> None:
        for watcher in self._watchers:
            watcher.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)
        live = [server for server in self._servers if server not in self._trouble]
        # One that has gone meanwhile holds nothing.
        await asyncio.gather(*(server.leave() for server in live), return_exceptions=True)
        for client in self._clients:
            await client.aclose()

    def _connect(self) -> Iterator[Any]:
        """Make one client per server, because a client scans all of its connections for each
        request."""
        from httpx import AsyncClient, Limits, create_ssl_context

        trusted = create_ssl_context()
        for url in self._spec.servers:
            # Time limits are ours; how many requests are under way is the runtime's. Of idle
            # connections more than a few are closed, since they are looked at again and again. A
            # proxy that the environment names cannot reach this machine's own addresses.
            yield AsyncClient(
                headers={"authorization": f"Bearer {self._key}"} if self._key else {},
                limits=Limits(max_connections=None, max_keepalive_connections=KEPT_IDLE),
                timeout=None,
                verify=trusted,
                trust_env=not leads_to_loopback(url),
            )

    async def _meet_all(self, servers: list[Server]) -> None:
        """Meet servers that may still be starting."""
        self._trouble = dict.fromkeys(servers, "it has not answered yet")
        try:
            async with asyncio.timeout(self._spec.ready_seconds):
                for server in servers:
                    while not await self._meet(server):
                        await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            raise self._overdue(servers) from None

    async def _meet(self, server: Server) -> bool:
        try:
            await server.meet()
        except (ServerLost, ModelTimeout) as error:
            self._trouble[server] = str(error)
            return False
        self._trouble.pop(server, None)
        return True

    async def _live(self) -> list[Server]:
        """Return the available servers; waits until there is one."""
        try:
            async with asyncio.timeout(self._spec.ready_seconds):
                while len(self._trouble) == len(self._servers):
                    self._back.clear()
                    await self._back.wait()
        except TimeoutError:
            raise self._overdue(self._servers) from None
        return [server for server in self._servers if server not in self._trouble]

    def _lose(self, server: Server, lost: ServerLost) -> None:
        if server not in self._trouble:
            self._trouble[server] = str(lost)
            self._lost.append(
                f"vLLM server {server.url} was lost ({lost}); the other servers get its requests,"
                " and collab uses it again when it is back"
            )
            watcher = asyncio.create_task(self._watch(server))
            self._watchers.add(watcher)
            watcher.add_done_callback(self._watchers.discard)

    async def _watch(self, server: Server) -> None:
        """Poll a lost server until it is back and can be used."""
        while server in self._trouble:
            try:
                is_back = await self._meet(server)
            except CollabError as error:  # it came back as one that cannot be used
                self._trouble[server] = str(error)
                is_back = False
            if not is_back:
                await asyncio.sleep(LOOK_SECONDS)
        self._back.set()

    def _overdue(self, servers: list[Server]) -> ModelTimeout:
        missing = [f"{s.url}: {self._trouble[s]}" for s in servers if s in self._trouble]
        return ModelTimeout(
            f"no answer from vLLM within {self._spec.ready_seconds:g} s ({'; '.join(missing)});"
            " start the server, or raise the model's ready_seconds"
        )


def _exhausted(work: str, last: str) -> ModelUnavailable:
    return ModelUnavailable(
        f"{ATTEMPTS} attempts at {work} failed, the last at {last}; see the server's log"
    )
