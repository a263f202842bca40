"""vLLM servers that share the load. When a lost server returns, its adapters are loaded again."""

from __future__ import annotations

import asyncio
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from collab.errors import CollabError, ModelTimeout, ModelUnavailable
from collab.models.base import SamplerReport
from collab.models.keys import read_key
from collab.models.vllm.adapter_store import Version
from collab.models.vllm.backend import Capacity, Completion, GenerationRequest
from collab.models.vllm.server import Server, ServerLost
from collab.recipe.model import VLLMSpec

LOAD_LOOK_SECONDS = 2.0
"""Seconds between two queries of the load of busy servers."""

WAITING = "vllm:num_requests_waiting"
PREEMPTED = "vllm:num_preemptions_total"


@dataclass
class Load:
    """The load of one server since the last report. None stands for what it does not report."""

    in_flight: int = 0
    waiting: float | None = None
    """Maximum number of requests waiting at once."""
    preempted: float | None = None
    """Number of preemptions since the server was started."""
    reported: float | None = None
    """Number of preemptions at the last report, or when the server was first observed."""

    def observe(self, page: str) -> None:
        """Take the numbers of a server's metrics."""
        waiting, preempted = _sum(page, WAITING), _sum(page, PREEMPTED)
        if waiting is not None:
            self.waiting = max(self.waiting or 0.0, waiting)
        if preempted is not None:
            self.preempted = preempted
            if self.reported is None:
                self.reported = preempted

    def metrics(self) -> dict[str, float]:
        metrics: dict[str, float] = {"in_flight": self.in_flight}
        if self.waiting is not None:
            metrics["waiting"] = self.waiting
        if self.preempted is not None and self.reported is not None:
            # A restarted server counts from 0 again.
            before = self.reported if self.reported <= self.preempted else 0.0
            metrics["preempted"] = self.preempted - before
        return metrics


@dataclass
class Loads:
    """The load of some servers, observed while requests are in progress."""

    servers: Sequence[Server] = ()
    lost: list[str] = field(default_factory=list)
    """Warnings about servers lost since the last report."""
    _loads: defaultdict[str, Load] = field(default_factory=lambda: defaultdict(Load))
    _watcher: asyncio.Task[None] | None = None

    def note_request(self, server: Server) -> None:
        """Note a request to `server`, and start observing its load."""
        load = self._loads[server.url]
        load.in_flight = max(load.in_flight, server.in_flight + 1)
        if self._watcher is None or self._watcher.done():
            self._watcher = asyncio.create_task(self._watch())

    async def report(self) -> SamplerReport:
        """Return the load since the last report, by server number from 1."""
        await self._look()
        metrics: dict[str, float] = {}
        for place, server in enumerate(self.servers, start=1):
            load = self._loads[server.url]
            metrics |= {f"{place}/{name}": value for name, value in load.metrics().items()}
            self._loads[server.url] = Load(preempted=load.preempted, reported=load.preempted)
        warnings, self.lost = tuple(self.lost), []
        return SamplerReport(metrics=metrics, warnings=warnings)

    async def aclose(self) -> None:
        """Stop observing."""
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)

    async def _watch(self) -> None:
        while any(server.in_flight for server in self.servers):
            await self._look()
            await asyncio.sleep(LOAD_LOOK_SECONDS)

    async def _look(self) -> None:
        await asyncio.gather(*map(self._look_at, self.servers))

    async def _look_at(self, server: Server) -> None:
        with suppress(ServerLost, CollabError):  # the next request to the server reports this
            self._loads[server.url].observe(await server.load_page())


def _sum(page: str, name: str) -> float | None:
    """Sum a metric over its labels, from Prometheus's text, or return None if it is missing."""
    pattern = rf"^{re.escape(name)}(?:\{{[^\n]*\}})? +([0-9.eE+-]+)\s*$"
    values = re.findall(pattern, page, re.MULTILINE)
    return sum(map(float, values)) if values else None


LOAD_LIMIT = 1.25
"""Load limit relative to the mean, above which a server gets no new requests."""


def route(servers: Sequence[Server], key: str) -> Server:
    """Return the server for requests of `key`, chosen by rendezvous hashing.

    If a server is added or removed, only its own requests move. A server with a quarter more
    requests in progress than the mean is skipped.
    """
    limit = LOAD_LIMIT * sum(server.in_flight for server in servers) / len(servers)
    free = [server for server in servers if server.in_flight <= limit]
    return min(free, key=lambda s: blake2b(f"{s.url}|{key}".encode(), digest_size=8).digest())


LOOK_SECONDS = 0.5
"""Seconds between two attempts to reach a lost server."""
ATTEMPTS = 4
"""Attempts at one response or adapter while servers are being lost."""
KEPT_IDLE = 20
"""Idle connections to one server that stay open."""
LAG_SECONDS = 60.0
"""Seconds for which a new adapter on a shared disk may stay invisible to a server."""


class Servers:
    """All servers in a recipe. `route` picks one per request."""

    context: int
    wants_zero_adapter = True
    """True, since servers do not say which device they run on."""

    def __init__(self, spec: VLLMSpec) -> None:
        """Prepare the requests.

        Raises:
            ModelUnavailable: the key cannot be sent.
        """
        self._spec = spec
        self._key = read_key(spec.key)
        self._clients: list[Any] = []
        self._servers: list[Server] = []
        self._trouble: dict[Server, str] = {}
        """Reasons why servers cannot be used now."""
        self._back = asyncio.Event()
        self._watchers: set[asyncio.Task[None]] = set()
        self._loads = Loads()

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
        self._servers = self._loads.servers = servers
        self.context = min(self._spec.context or sys.maxsize, *(s.context for s in servers))

    async def complete(self, request: GenerationRequest) -> Completion:
        for _ in range(ATTEMPTS):
            server = route(await self._live(), request.key)
            self._loads.note_request(server)
            try:
                return await server.complete(request)
            except ServerLost as lost:
                self._lose(server, lost)
                last = f"{server.url}: {lost}"
        raise _exhausted("one response", last)

    async def load(self, version: Version) -> None:
        """Load an adapter on every available server. Other servers load it with their first
        request."""
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
                continue  # it has lost all adapters, or keeps one too many

    async def report(self) -> SamplerReport:
        return await self._loads.report()

    async def sleep(self) -> None:
        """Do nothing: servers keep their memory, because they run elsewhere or may serve others."""

    async def aclose(self) -> None:
        for watcher in self._watchers:
            watcher.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)
        await self._loads.aclose()
        live = [server for server in self._servers if server not in self._trouble]
        # A lost server has no adapters.
        await asyncio.gather(*(server.leave() for server in live), return_exceptions=True)
        for client in self._clients:
            await client.aclose()

    def _connect(self) -> Iterator[Any]:
        """Make one client per server, because a client scans all of its connections for each
        request."""
        from httpx import create_ssl_context

        from collab.models.http_client import ModelClient

        trusted = create_ssl_context()
        for url in self._spec.servers:
            # Few idle connections are kept, because each is checked again and again.
            yield ModelClient(url, self._key, max_idle=KEPT_IDLE, verify=trusted)

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
        """Return the available servers, and wait until there is at least one."""
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
            self._loads.lost.append(
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
            except CollabError as error:  # it is back, but cannot be used
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
