"""OpenTelemetry spans of collab's work, by the conventions for generative AI.

An episode is a span `invoke_workflow TEAM`, and each response is its child `invoke_agent AGENT`. A
run, a training, its steps and evaluations are parent spans. Spans go to the provider that the
process has set up. Without one, there are none. They do not contain the agents' texts.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING, Any

from collab.distribution import install
from collab.records import Decision, Episode

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

Attributes = Mapping[str, str | int | float]

_NANOSECONDS = 1_000_000_000
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")

_client: ContextVar[Attributes | None] = ContextVar("asked", default=None)
"""Attributes of the client whose episodes are played here."""


def set_up() -> str | None:
    """Send this process's spans to the collector that its environment names, if any.

    A process that already has a provider of spans keeps it. The result is a message for the user if
    spans cannot be sent. Without a collector, OpenTelemetry is not imported.
    """
    named = next((name for name in _ENDPOINTS if os.environ.get(name)), None)
    if named is None or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        return f"{named} is set, but no spans are sent; run {install('otel')}"
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        os.environ.setdefault("OTEL_SERVICE_NAME", "collab")
        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        trace.set_tracer_provider(provider)
    return None


class EpisodeSpans:
    """The spans of one episode, made from its events."""

    def __init__(self, tracer: Tracer | None, workflow: Span | None) -> None:
        """Start the spans, or do nothing without a tracer."""
        self._tracer, self._workflow = tracer, workflow
        self._began: dict[tuple[int, int, str, int], int] = {}
        self._steps: dict[tuple[int, int, str], int] = {}

    def heard(self, emit: Callable[[Any], None]) -> Callable[[Any], None]:
        """Return an `emit` for the episode's events that also feeds these spans."""
        if self._workflow is None:
            return emit

        def both(event: Any) -> None:
            self._see(event)
            emit(event)

        return both

    def _see(self, event: Any) -> None:
        """Process an event of `collab.runtime.events`."""
        match event.type:
            case "agent.acting":
                place = (event.turn, event.round, event.agent)
                step = self._steps[place] = self._steps.get(place, -1) + 1
                self._began[(*place, step)] = time.time_ns()
            case "agent.acted":
                self._act(event.turn, event.decision)
            case "episode.finished":
                self._finish(event.episode)

    def _act(self, turn: int, decision: Decision) -> None:
        if self._tracer is None or self._workflow is None:
            return
        from opentelemetry.trace import set_span_in_context

        action = decision.action
        place = (turn, decision.round, decision.agent, decision.step)
        end = time.time_ns()
        began = self._began.pop(place, end)
        span = _start(
            self._tracer,
            f"invoke_agent {decision.agent}",
            set_span_in_context(self._workflow),
            start_time=began,
            attributes={
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": decision.agent,
                "gen_ai.request.model": action.model,
                "gen_ai.response.finish_reasons": [action.finish_reason],
                "gen_ai.usage.input_tokens": action.usage.prompt_tokens,
                "gen_ai.usage.output_tokens": action.usage.new_tokens,
                "collab.turn": turn,
                "collab.round": decision.round,
            },
        )
        if action.failure is not None:
            span.set_attribute("error.type", action.failure.type)
        span.end(min(end, began + int(action.seconds * _NANOSECONDS)))

    def _finish(self, episode: Episode) -> None:
        if self._workflow is None:
            return
        if episode.reward is not None:
            _evaluated(self._workflow, "reward", episode.reward)
        if episode.failure:
            self._workflow.set_attribute("error.type", episode.failure.type)


@contextmanager
def traced_episode(team: str, attributes: Attributes) -> Iterator[EpisodeSpans]:
    """Context manager that keeps the spans of an episode open."""
    named = {"gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": team}
    with operation(
        f"invoke_workflow {team}", {**named, **(_client.get() or {}), **attributes}
    ) as done:
        yield EpisodeSpans(_tracer(), done.span)


def _start(tracer: Tracer, *given: Any, **named: Any) -> Span:
    """Start a span like `Tracer.start_span`, but with an id that does not depend on the training
    seed.

    OpenTelemetry draws ids from Python's global random state, which training seeds. Training's
    random numbers must not depend on tracing, and ids must not repeat from run to run.
    """
    state = random.getstate()
    random.seed()
    try:
        return tracer.start_span(*given, **named)
    finally:
        random.setstate(state)


class Operation:
    """An operation with a duration, and its span, or None without tracing."""

    def __init__(self, span: Span | None) -> None:
        self.span = span

    def note(self, attributes: Attributes) -> None:
        """Add attributes."""
        if self.span is not None:
            self.span.set_attributes(attributes)

    def evaluated(self, name: str, score: float | None) -> None:
        """Add an evaluation's score, if there is one."""
        if self.span is not None and score is not None:
            _evaluated(self.span, name, score)

    def context(self) -> Context | None:
        """Return the context in which tasks create child spans of this one, or None for the
        caller's context."""
        if self.span is None:
            return None
        context = copy_context()
        context.run(self._attach)
        return context

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Context manager in which new spans are children of this one. Do not use it in generators,
        which pause.
        """
        if self.span is None:
            yield
            return
        from opentelemetry.context import detach

        token = self._attach()
        try:
            yield
        finally:
            detach(token)

    def _attach(self) -> Any:
        from opentelemetry.context import attach
        from opentelemetry.trace import set_span_in_context

        assert self.span is not None
        return attach(set_span_in_context(self.span))


@contextmanager
def operation(name: str, attributes: Attributes) -> Iterator[Operation]:
    """Yield a span that ends with the block, and record the type of an exception that leaves it."""
    tracer = _tracer()
    if tracer is None:
        yield Operation(None)
        return
    span = _start(tracer, name, attributes=dict(attributes))
    try:
        yield Operation(span)
    except BaseException as error:
        if not isinstance(error, GeneratorExit):
            span.set_attribute("error.type", type(error).__name__)
        raise
    finally:
        span.end()


@contextmanager
def client_of(carrier: Mapping[str, str] | None, attributes: Attributes) -> Iterator[None]:
    """Context manager that assigns episodes to the client's trace, from the `traceparent` in
    `carrier`.

    `attributes` are added to each of them.
    """
    if _tracer() is None:
        yield
        return
    from opentelemetry.context import attach, detach
    from opentelemetry.propagate import extract

    token, noted = attach(extract(dict(carrier or {}))), _client.set(attributes)
    try:
        yield
    finally:
        _client.reset(noted)
        detach(token)


def _evaluated(span: Span, name: str, score: float) -> None:
    span.add_event(
        "gen_ai.evaluation.result",
        {"gen_ai.evaluation.name": name, "gen_ai.evaluation.score.value": score},
    )


def _tracer() -> Tracer | None:
    """Return the tracer, or None, without importing OpenTelemetry, if the process has not loaded
    it."""
    if "opentelemetry.trace" not in sys.modules:
        return None
    from opentelemetry.trace import get_tracer

    return get_tracer("collab")
