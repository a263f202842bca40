"""What Prometheus reads at `/metrics`; labels hold names of teams and agents, never users' text."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from collab.records import Episode
from collab.serving.lanes import Lanes
from collab.serving.usage import is_cut

_SECONDS = (0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000)


class Metrics:
    """The counters of one server."""

    def __init__(self, lanes: Lanes) -> None:
        self._registry = CollectorRegistry()
        running = self._gauge("requests_running", "Requests whose episode is played.")
        running.set_function(lambda: lanes.running)
        waiting = self._gauge("requests_waiting", "Requests that wait for their turn.")
        waiting.set_function(lambda: lanes.waiting)
        self._answered = self._counter("request_success", "Answers.", "team", "finish")
        self._refused = self._counter("request_failure", "Requests without one.", "team", "type")
        self._episode = self._histogram("episode_seconds", "Of an episode.", "team")
        self._agent = self._histogram("agent_seconds", "Of a response.", "team", "agent")
        self._first = self._histogram("time_to_first_chunk_seconds", "Of a stream.", "team")
        self._prompt = self._counter("prompt_tokens", "Read by agents.", "team", "agent")
        self._new = self._counter("new_tokens", "Written by agents.", "team", "agent")
        self._cached = self._counter("cached_tokens", "Read from a cache.", "team")

    def answered(self, team: str, episode: Episode) -> None:
        """An episode made an answer, and its client took it."""
        self._answered.labels(team, "length" if is_cut(episode) else "stop").inc()
        self._episode.labels(team).observe(episode.seconds)
        for turn in episode.turns:
            for decision in turn.decisions:
                action = decision.action
                self._agent.labels(team, decision.agent).observe(action.seconds)
                self._prompt.labels(team, decision.agent).inc(action.usage.prompt_tokens)
                self._new.labels(team, decision.agent).inc(action.usage.new_tokens)
                self._cached.labels(team).inc(action.usage.cached_tokens)

    def refused(self, team: str, reason: str) -> None:
        """A request to a team had no answer."""
        self._refused.labels(team, reason).inc()

    def began(self, team: str, seconds: float) -> None:
        """The first part of a stream's answer was sent, so long after the request came."""
        self._first.labels(team).observe(seconds)

    def text(self) -> bytes:
        """In Prometheus' text format."""
        text: bytes = generate_latest(self._registry)
        return text

    def _gauge(self, name: str, told: str) -> Gauge:
        return Gauge(f"collab:{name}", told, registry=self._registry)

    def _counter(self, name: str, told: str, *labels: str) -> Counter:
        return Counter(f"collab:{name}", told, labels, registry=self._registry)

    def _histogram(self, name: str, told: str, *labels: str) -> Histogram:
        return Histogram(f"collab:{name}", told, labels, registry=self._registry, buckets=_SECONDS)
