"""What vLLM's servers tell of their load, collected over a step."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from collab.errors import CollabError
from collab.models.base import SamplerReport
from collab.models.vllm.http import ServerLost
from collab.models.vllm.server import Server

LOOK_SECONDS = 2.0
"""Between two looks at the load of servers that are at work."""

WAITING = "vllm:num_requests_waiting"
PREEMPTED = "vllm:num_preemptions_total"


@dataclass
class Seen:
    """What was seen of one server since the last report."""

    in_flight: int = 0
    waiting: float | None = None
    """The most requests at once that were not being worked on; None where it does not say so."""
    preempted: float | None = None
    """Preemptions since it was started; None where it does not say so."""
    told: float | None = None
    """The same at the last report, or when it was first looked at."""


@dataclass
class Loads:
    """The load of some servers, looked at while requests are under way."""

    servers: Sequence[Server] = ()
    lost: list[str] = field(default_factory=list)
    """What to tell of servers that went away since the last report."""
    _seen: dict[str, Seen] = field(default_factory=dict)
    _watcher: asyncio.Task[None] | None = None

    def sent(self, server: Server) -> None:
        """A request goes to `server`, whose load is looked at from now on."""
        seen = self._seen.setdefault(server.url, Seen())
        seen.in_flight = max(seen.in_flight, server.in_flight + 1)
        if self._watcher is None or self._watcher.done():
            self._watcher = asyncio.create_task(self._watch())

    async def report(self) -> SamplerReport:
        """What was seen since the last report, by the servers' places from 1."""
        await self._look()
        metrics: dict[str, float] = {}
        for place, server in enumerate(self.servers, start=1):
            seen = self._seen.setdefault(server.url, Seen())
            metrics[f"{place}/in_flight"] = seen.in_flight
            if seen.waiting is not None:
                metrics[f"{place}/waiting"] = seen.waiting
            if seen.preempted is not None:
                # A server that was started anew counts from 0 again.
                since = seen.told if seen.told is not None and seen.told <= seen.preempted else 0.0
                metrics[f"{place}/preempted"] = seen.preempted - since
            self._seen[server.url] = Seen(preempted=seen.preempted, told=seen.preempted)
        warnings, self.lost = tuple(self.lost), []
        return SamplerReport(metrics=metrics, warnings=warnings)

    async def aclose(self) -> None:
        """Stop looking."""
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)

    async def _watch(self) -> None:
        while any(server.in_flight for server in self.servers):
            await self._look()
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self) -> None:
        await asyncio.gather(*map(self._look_at, self.servers))

    async def _look_at(self, server: Server) -> None:
        with suppress(ServerLost, CollabError):  # whoever asks it for an answer tells of that
            page = await server.load_page()
            seen = self._seen.setdefault(server.url, Seen())
            waiting, preempted = _sum(page, WAITING), _sum(page, PREEMPTED)
            if waiting is not None:
                seen.waiting = max(seen.waiting or 0.0, waiting)
            seen.preempted = preempted if preempted is not None else seen.preempted
            seen.told = seen.preempted if seen.told is None else seen.told


def _sum(page: str, name: str) -> float | None:
    """The sum of a metric over its labels, from Prometheus's text; None where it is not there."""
    pattern = rf"^{re.escape(name)}(?:\{{[^\n]*\}})? +([0-9.eE+-]+)\s*$"
    found = re.findall(pattern, page, re.MULTILINE)
    return sum(map(float, found)) if found else None
