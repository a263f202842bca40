"""The state that all requests share: teams, queue, counters and record."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import ExitStack, aclosing, asynccontextmanager
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from collab.errors import CollabError, RecordError
from collab.recipe import Recipe
from collab.records import Episode, Failure, Problem, failure_of
from collab.runs.about import new_run_id, now
from collab.runtime.episode import Start
from collab.runtime.events import EpisodeFinished, Event
from collab.runtime.folder import RunFolder
from collab.runtime.notes import versions
from collab.runtime.session import concurrency_of
from collab.serving.reading import TeamQuestion
from collab.serving.refusal import (
    LIMITED,
    RETRY_SECONDS,
    SERVER,
    Refused,
    refusal_for,
    unavailable,
)
from collab.serving.reply import is_truncated
from collab.serving.settings import Settings
from collab.serving.team import ServedTeam
from collab.serving.teams import open_teams, served_recipe
from collab.telemetry import use_client_trace


class EpisodeQueue:
    """Limits the number of running episodes. Other episodes wait in order of arrival."""

    def __init__(self, max_running: int, max_waiting: int) -> None:
        self.running = self.waiting = self.unfinished = 0
        self._max_waiting, self._max_running = max_waiting, max_running
        self._free = asyncio.Semaphore(max_running)

    @property
    def is_idle(self) -> bool:
        """True if every request has its whole answer, or was refused."""
        return not self.unfinished

    @property
    def places(self) -> int:
        """Maximum number of requests that run or wait."""
        return self._max_running + self._max_waiting

    def widen(self, max_running: int) -> None:
        """Set the maximum number of concurrent episodes. Call this before the first request."""
        self._max_running, self._free = max_running, asyncio.Semaphore(max_running)

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Context manager that waits in the queue until an episode may run.

        Raises:
            Refused: the queue is full.
        """
        if self.running + self.waiting >= self.places:
            raise Refused(
                429,
                "rate_limit_exceeded",
                f"{self.running} requests are running and {self.waiting} are waiting, the limit of"
                " this server; try again later",
                kind=LIMITED,
                retry_after=RETRY_SECONDS,
            )
        self.waiting += 1
        try:
            await self._free.acquire()
        finally:
            self.waiting -= 1
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1
            self._free.release()


CLIENT_LEFT = "client left"
"""Type of a failed request whose client did not wait for its answer."""

_SECONDS_BUCKETS = (0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000)


class Metrics:
    """The counters of one server."""

    def __init__(self, queue: EpisodeQueue) -> None:
        self._registry = CollectorRegistry()
        running = self._gauge("requests_running", "Requests whose episode is running.")
        running.set_function(lambda: queue.running)
        waiting = self._gauge("requests_waiting", "Requests that wait for their turn.")
        waiting.set_function(lambda: queue.waiting)
        self._answered = self._counter("request_success", "Answers.", "team", "finish")
        self._refused = self._counter("request_failure", "Requests without one.", "team", "type")
        self._episode = self._histogram("episode_seconds", "Of an episode.", "team")
        self._agent = self._histogram("agent_seconds", "Of a response.", "team", "agent")
        self._first = self._histogram("time_to_first_chunk_seconds", "Of a stream.", "team")
        self._prompt = self._counter("prompt_tokens", "Read by agents.", "team", "agent")
        self._new = self._counter("new_tokens", "Written by agents.", "team", "agent")
        self._cached = self._counter("cached_tokens", "Read from a cache.", "team")

    def count_answer(self, team: str, episode: Episode) -> None:
        """Count an answer that the client has received, with its tokens and times."""
        self._answered.labels(team, "length" if is_truncated(episode) else "stop").inc()
        self._episode.labels(team).observe(episode.seconds)
        for decision in episode.decisions():
            action = decision.action
            self._agent.labels(team, decision.agent).observe(action.seconds)
            self._prompt.labels(team, decision.agent).inc(action.usage.prompt_tokens)
            self._new.labels(team, decision.agent).inc(action.usage.new_tokens)
            self._cached.labels(team).inc(action.usage.cached_tokens)

    def count_refusal(self, team: str, reason: str) -> None:
        """Count a request that got no answer, by team and reason."""
        self._refused.labels(team, reason).inc()

    def observe_first_chunk(self, team: str, seconds: float) -> None:
        """Record the time from a request to the first part of its streamed answer."""
        self._first.labels(team).observe(seconds)

    def text(self) -> bytes:
        """Return the counters in Prometheus's text format."""
        text: bytes = generate_latest(self._registry)
        return text

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"collab:{name}", text, registry=self._registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"collab:{name}", text, labels, registry=self._registry)

    def _histogram(self, name: str, text: str, *labels: str) -> Histogram:
        return Histogram(
            f"collab:{name}", text, labels, registry=self._registry, buckets=_SECONDS_BUCKETS
        )


LOG = logging.getLogger("collab.serving")

T = TypeVar("T")


class Service:
    """The teams of one server, while they are open."""

    def __init__(self, recipes: Mapping[str, Recipe], settings: Settings) -> None:
        """Make the service.

        Raises:
            RecipeError: strangers' programs would run without a sandbox.
        """
        self.settings = settings
        self._recipes = {name: served_recipe(recipe, settings) for name, recipe in recipes.items()}
        self.teams: dict[str, ServedTeam] = {}
        """The teams by name, while they are open."""
        self.queue = EpisodeQueue(1, settings.queue)
        self.metrics = Metrics(self.queue)
        self.shut_down = asyncio.Event()
        """Set when requests in progress must be canceled."""
        self._is_ready = False
        self._folders: dict[str, RunFolder] = {}
        self._records = ExitStack()
        """Closes the records when the service ends."""
        self._recorded = 0

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Context manager that keeps the teams' models open.

        Raises:
            CollabError: something is missing, or the record cannot be written.
        """
        async with open_teams(self._recipes, self.settings) as teams:
            self.teams = teams
            default_concurrency = min(map(concurrency_of, self._recipes.values()), default=1)
            self.queue.widen(self.settings.concurrency or default_concurrency)
            try:
                self._open_records()
                self.shut_down = asyncio.Event()  # belongs to the running event loop
                self._is_ready = True
                yield
            finally:
                self._is_ready = False
                self.shut_down.set()
                self.teams = {}
                self._records.close()

    @property
    def is_ready(self) -> bool:
        """True if requests are accepted."""
        return self._is_ready and not self.shut_down.is_set()

    def drain(self) -> None:
        """Refuse new requests. Those in progress continue."""
        self._is_ready = False

    def team(self, name: str) -> ServedTeam:
        """Return the team with this name.

        Raises:
            Refused: there is no such team, or the server is not ready.
        """
        self.check_ready()
        if name not in self.teams:
            known = ", ".join(self.teams)  # the unknown name is neither repeated nor looked up
            message = f"no such model; this server has: {known}"
            raise Refused(404, "model_not_found", message, param="model")
        return self.teams[name]

    def check_ready(self) -> None:
        """Check that the server accepts requests.

        Raises:
            Refused: the server is starting or shutting down.
        """
        if not self.is_ready:
            raise unavailable(
                "the server is starting or shutting down, or the application that mounts it did not"
                " enter its lifespan"
            )

    async def run_work(
        self,
        team: str,
        work: Coroutine[Any, Any, T],
        client_left: Coroutine[Any, Any, None] | None = None,
    ) -> T | None:
        """Return the result of a request's `work`, or None if its client leaves first.

        `client_left` ends when the client leaves.

        Raises:
            Refused: the server shuts down.
        """
        working = asyncio.create_task(work)
        ends = [asyncio.create_task(end) for end in (self.shut_down.wait(), client_left) if end]
        reason = CLIENT_LEFT
        self.queue.unfinished += 1
        try:
            await asyncio.wait({working, *ends}, return_when=asyncio.FIRST_COMPLETED)
            reason = "shut down" if ends[0].done() else reason
        finally:
            for task in (working, *ends):
                task.cancel()
            await asyncio.gather(working, *ends, return_exceptions=True)
            self.queue.unfinished -= 1
            if working.cancelled():
                self.metrics.count_refusal(team, reason)
        if working.cancelled() and reason == "shut down":
            raise unavailable("the server is shutting down")
        return None if working.cancelled() else working.result()

    def record_episode(self, team: ServedTeam, episode: Episode, name: str) -> None:
        """Append an episode to the record under a unique name, if the server keeps a record.

        Raises:
            Refused: the episode cannot be written.
        """
        if folder := self._folders.get(team.name):
            names = {"task": f"served/{name}", "id": f"served/{name}#0", "group": self._recorded}
            self._recorded += 1
            try:
                folder.append(episode.model_copy(update=names))
            except RecordError as error:
                LOG.error("an episode is not in the record: %s", error)
                message = "the episode cannot be kept in the server's record; its log says why"
                raise Refused(500, "RecordError", message, kind=SERVER) from error

    def _open_records(self) -> None:
        if self.settings.record is None:
            return
        for name, team in self.teams.items():
            several = len(self.teams) > 1
            folder = self.settings.record / name if several else self.settings.record
            about = {
                "run": new_run_id(name),
                "team": team.recipe.team.name,
                "agents": [*team.recipe.team.agents],
                "models": dict(team.session.model_names()),
                "versions": versions(team.recipe),
                "started": now(),
                "command": ["collab", "serve"],
            }
            opened = RunFolder.create(folder, team.recipe, about, given_by="record")
            self._folders[name] = opened
            self._records.callback(opened.finish, {**about, "status": "done"})


OnServedEvent = Callable[[Event], Awaitable[None]]
"""Called with each event as it happens. Its time counts as the episode's."""


async def run_request(
    service: Service,
    team: ServedTeam,
    question: TeamQuestion,
    problem: Problem,
    request: str,
    *,
    on_event: OnServedEvent,
    carrier: Mapping[str, str] | None = None,
) -> Episode:
    """Run the episode of a request that has left the queue, and return it. Canceling this call
    cancels the episode.

    `carrier` holds the client's headers, for its trace.

    Raises:
        Refused: the episode failed, or took too long.
    """
    limit = service.settings.seconds
    timeout = asyncio.timeout(limit)
    try:
        async with timeout:
            with use_client_trace(carrier, {"collab.request": request}):
                episode = await _run_episode(team, question, problem, on_event)
    except CollabError as error:
        raise _logged_refusal(failure_of(error), request) from error
    except TimeoutError:
        if not timeout.expired():
            raise
        message = f"no answer within {limit:g} s"
        raise Refused(504, "timeout", message, kind=SERVER) from None
    service.record_episode(team, episode, question.id)
    if episode.failure is not None:
        raise _logged_refusal(episode.failure, request)
    return episode


def _logged_refusal(failure: Failure, request: str) -> Refused:
    summary = f" ({failure.summary})" if failure.summary else ""
    LOG.error("episode failed: %s%s, request %s", failure.type, summary, request)
    return refusal_for(failure)


async def _run_episode(
    team: ServedTeam, question: TeamQuestion, problem: Problem, on_event: OnServedEvent
) -> Episode:
    episode = None
    stream = team.session.stream(
        [Start(problem)],
        seed=secrets.randbelow(2**31) if question.seed is None else question.seed,
        progress=question.stream,
        adjust=question.sampling,
    )
    async with aclosing(stream) as events:
        async for event in events:
            await on_event(event)
            if isinstance(event, EpisodeFinished):
                episode = event.episode
    assert episode is not None, "an episode that is not canceled ends"
    return episode
