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

LOAD_POLL_SECONDS = 2.0
"""Seconds between two queries of the load of busy servers."""

WAITING_METRIC = "vllm:num_requests_waiting"
PREEMPTED_METRIC = "vllm:num_preemptions_total"


@dataclass
class Load:
    """The load of one server since the last report. None stands for what it does not report."""

    in_flight: int = 0
    waiting: float | None = None
    """Maximum number of requests waiting at once."""
    preempted: float | None = None
    """Number of preemptions."""
    counted: float | None = None
    """Number of preemptions that the server last reported, since it was started."""

    def observe(self, page: str) -> None:
        """Take the numbers of a server's metrics."""
        waiting, counted = _sum_metric(page, WAITING_METRIC), _sum_metric(page, PREEMPTED_METRIC)
        if waiting is not None:
            self.waiting = max(self.waiting or 0.0, waiting)
        if counted is not None:
            before = counted if self.counted is None else self.counted
            before = before if before <= counted else 0.0  # a restarted server counts from 0 again
            self.preempted = (self.preempted or 0.0) + counted - before
            self.counted = counted

    def metrics(self) -> dict[str, float]:
        values = {n: getattr(self, n) for n in ("in_flight", "waiting", "preempted")}
        return {name: value for name, value in values.items() if value is not None}


@dataclass
class LoadMonitor:
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
        await self._observe_all()
        metrics: dict[str, float] = {}
        for place, server in enumerate(self.servers, start=1):
            load = self._loads[server.url]
            metrics |= {f"{place}/{name}": value for name, value in load.metrics().items()}
            self._loads[server.url] = Load(counted=load.counted)
        warnings, self.lost = tuple(self.lost), []
        return SamplerReport(metrics=metrics, warnings=warnings)

    async def aclose(self) -> None:
        """Stop observing."""
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)

    async def _watch(self) -> None:
        while any(server.in_flight for server in self.servers):
            await self._observe_all()
            await asyncio.sleep(LOAD_POLL_SECONDS)

    async def _observe_all(self) -> None:
        await asyncio.gather(*map(self._observe, self.servers))

    async def _observe(self, server: Server) -> None:
        with suppress(ServerLost, CollabError):  # the next request to the server reports this
            self._loads[server.url].observe(await server.read_metrics())


def _sum_metric(page: str, name: str) -> float | None:
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


POLL_SECONDS = 0.5
"""Seconds between two attempts to reach a lost server."""
MAX_ATTEMPTS = 4
"""Attempts at one response or adapter while servers are being lost."""
MAX_IDLE_CONNECTIONS = 20
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
        self._problems: dict[Server, str] = {}
        """Reasons why servers cannot be used now."""
        self._server_back = asyncio.Event()
        self._watchers: set[asyncio.Task[None]] = set()
        self._monitor = LoadMonitor()

    async def open(self, folder: Path, capacity: Capacity) -> None:  # noqa: ARG002
        if self._servers:
            return
        if not self._clients:
            self._clients = list(self._connect())
        limit, key = self._spec.seconds, self._key
        lag = LAG_SECONDS if self._spec.adapter_folder else 0.0
        places = zip(self._spec.servers, self._clients, strict=True)
        servers = [Server(url, client, limit, key, lag) for url, client in places]
        await self._probe_all(servers)
        self._servers = self._monitor.servers = servers
        self.context = min(self._spec.context or sys.maxsize, *(s.context for s in servers))

    async def complete(self, request: GenerationRequest) -> Completion:
        for _ in range(MAX_ATTEMPTS):
            server = route(await self._live_servers(), request.key)
            self._monitor.note_request(server)
            try:
                return await server.complete(request)
            except ServerLost as lost:
                self._mark_lost(server, lost)
                last = f"{server.url}: {lost}"
        raise _attempts_error("one response", last)

    async def load(self, version: Version) -> None:
        """Load an adapter on every available server. Other servers load it with their first
        request."""
        for _ in range(MAX_ATTEMPTS):
            live = await self._live_servers()
            outcomes = await asyncio.gather(
                *(server.load(version) for server in live), return_exceptions=True
            )
            for server, outcome in zip(live, outcomes, strict=True):
                if isinstance(outcome, ServerLost):
                    self._mark_lost(server, outcome)
                    last = f"{server.url}: {outcome}"
                elif isinstance(outcome, BaseException):
                    raise outcome
            if any(outcome is None for outcome in outcomes):
                return
        raise _attempts_error(f"loading adapter {version.name}", last)

    async def unload(self, version: Version) -> None:
        for server in self._servers:
            with suppress(
                ServerLost, CollabError
            ):  # it has lost all adapters, or keeps one too many
                await server.unload(version)

    async def report(self) -> SamplerReport:
        return await self._monitor.report()

    async def sleep(self) -> None:
        """Do nothing: servers keep their memory, because they run elsewhere or may serve others."""

    async def aclose(self) -> None:
        for watcher in self._watchers:
            watcher.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)
        await self._monitor.aclose()
        live = [server for server in self._servers if server not in self._problems]
        # A lost server has no adapters.
        await asyncio.gather(*(server.unload_all() for server in live), return_exceptions=True)
        for client in self._clients:
            await client.aclose()

    def _connect(self) -> Iterator[Any]:
        """Make one client per server, because a client scans all of its connections for each
        request."""
        from httpx import create_ssl_context

        from collab.models.http_client import model_client

        tls_context = create_ssl_context()
        for url in self._spec.servers:
            # Few idle connections are kept, because each is checked again and again.
            yield model_client(url, self._key, max_idle=MAX_IDLE_CONNECTIONS, verify=tls_context)

    async def _probe_all(self, servers: list[Server]) -> None:
        """Wait for servers that may still be starting."""
        self._problems = dict.fromkeys(servers, "it has not answered yet")
        try:
            async with asyncio.timeout(self._spec.ready_seconds):
                for server in servers:
                    while not await self._probe(server):
                        await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            raise self._timeout_error(servers) from None

    async def _probe(self, server: Server) -> bool:
        try:
            await server.probe()
        except (ServerLost, ModelTimeout) as error:
            self._problems[server] = str(error)
            return False
        self._problems.pop(server, None)
        return True

    async def _live_servers(self) -> list[Server]:
        """Return the available servers, and wait until there is at least one."""
        try:
            async with asyncio.timeout(self._spec.ready_seconds):
                while len(self._problems) == len(self._servers):
                    self._server_back.clear()
                    await self._server_back.wait()
        except TimeoutError:
            raise self._timeout_error(self._servers) from None
        return [server for server in self._servers if server not in self._problems]

    def _mark_lost(self, server: Server, lost: ServerLost) -> None:
        if server not in self._problems:
            self._problems[server] = str(lost)
            self._monitor.lost.append(
                f"vLLM server {server.url} was lost ({lost}); the other servers get its requests,"
                " and collab uses it again when it is back"
            )
            watcher = asyncio.create_task(self._watch(server))
            self._watchers.add(watcher)
            watcher.add_done_callback(self._watchers.discard)

    async def _watch(self, server: Server) -> None:
        """Poll a lost server until it is back and can be used."""
        while server in self._problems:
            try:
                is_back = await self._probe(server)
            except CollabError as error:  # it is back, but cannot be used
                self._problems[server] = str(error)
                is_back = False
            if not is_back:
                await asyncio.sleep(POLL_SECONDS)
        self._server_back.set()

    def _timeout_error(self, servers: list[Server]) -> ModelTimeout:
        missing = [f"{s.url}: {self._problems[s]}" for s in servers if s in self._problems]
        return ModelTimeout(
            f"no answer from vLLM within {self._spec.ready_seconds:g} s ({'; '.join(missing)});"
            " start the server, or raise the model's ready_seconds"
        )


def _attempts_error(work: str, last: str) -> ModelUnavailable:
    return ModelUnavailable(
        f"{MAX_ATTEMPTS} attempts at {work} failed, the last at {last}; see the server's log"
    )
