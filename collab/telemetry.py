"""OpenTelemetry spans of collab's work, by the conventions for generative AI.

An episode is a span `invoke_workflow TEAM`, and each response is its child `invoke_agent AGENT`. A
run, a training run, its steps and evaluations are parent spans. Spans go to the provider that the
process has set up. Without one, there are none. They do not contain prompts or answers.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from collab.distribution import install_command
from collab.records import Decision

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

Attributes = Mapping[str, str | int | float]
EmitEpisode = Callable[[Any], None]

_ENDPOINT_VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")

_client_attributes: ContextVar[Attributes | None] = ContextVar("client", default=None)
"""Attributes of the client whose episodes run here."""


def set_up_tracing() -> str | None:
    """Send spans to the collector in `OTEL_EXPORTER_OTLP_ENDPOINT` or
    `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, unless the process already has a tracer provider.

    Return a message for the user if packages are missing, otherwise None.
    """
    named = next((name for name in _ENDPOINT_VARIABLES if os.environ.get(name)), None)
    if named is None or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        return f"{named} is set, but no spans are sent; run {install_command('otel')}"
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        os.environ.setdefault("OTEL_SERVICE_NAME", "collab")
        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        trace.set_tracer_provider(provider)
    return None


@contextmanager
def trace_episode(team: str, attributes: Attributes, emit: EmitEpisode) -> Iterator[EmitEpisode]:
    """Context manager with an `emit` for an episode's events that also makes its spans."""
    named = {"gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": team}
    about = {**named, **(_client_attributes.get() or {}), **attributes}
    with operation(f"invoke_workflow {team}", about) as workflow:

        def emit_and_trace(event: Any) -> None:
            if event.type == "agent.acted":
                _add_response_span(workflow, event.turn, event.decision)
            elif event.type == "episode.finished":
                workflow.add_score("reward", event.episode.reward)
                if event.episode.failure:
                    workflow.fail(event.episode.failure.type)
            emit(event)

        yield emit_and_trace if workflow.span is not None else emit


def _add_response_span(workflow: Operation, turn: int, decision: Decision) -> None:
    """Make the span of a response that has just ended."""
    tracer, context = _tracer(), workflow.context()
    assert tracer is not None
    assert context is not None
    action, end = decision.action, time.time_ns()
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": decision.agent,
        "gen_ai.request.model": action.model,
        "gen_ai.response.finish_reasons": [action.finish_reason],
        "gen_ai.usage.input_tokens": action.usage.prompt_tokens,
        "gen_ai.usage.output_tokens": action.usage.new_tokens,
        "collab.turn": turn,
        "collab.round": decision.round,
    }
    begin = end - int(action.seconds * 1e9)
    name = f"invoke_agent {decision.agent}"
    span = context.run(_start_span, tracer, name, start_time=begin, attributes=attributes)
    if action.failure is not None:
        Operation(span).fail(action.failure.type)
    span.end(end)


def _start_span(tracer: Tracer, *args: Any, **kwargs: Any) -> Span:
    """Start a span like `Tracer.start_span`, but with an id that does not depend on the training
    seed.

    OpenTelemetry draws ids from Python's global random state, which training seeds. Training's
    random numbers must not depend on tracing, and ids must not repeat from run to run.
    """
    state = random.getstate()
    random.seed()
    try:
        return tracer.start_span(*args, **kwargs)
    finally:
        random.setstate(state)


@dataclass(frozen=True)
class Operation:
    """A span in progress."""

    span: Span | None
    """Its span, or None without tracing."""

    def fail(self, kind: str) -> None:
        """Mark the span as failed, and record the type of the error, but not its message."""
        if self.span is not None:
            from opentelemetry.trace import StatusCode

            self.span.set_attribute("error.type", kind)
            self.span.set_status(StatusCode.ERROR)

    def add_score(self, name: str, score: float | None) -> None:
        """Record an evaluation's score, unless it is None."""
        if self.span is not None and score is not None:
            about: Attributes = {
                "gen_ai.evaluation.name": name,
                "gen_ai.evaluation.score.value": score,
            }
            self.span.add_event("gen_ai.evaluation.result", about)

    def context(self) -> Context | None:
        """Return the context in which tasks create child spans of this one, or None for the
        caller's context."""
        if self.span is None:
            return None
        from opentelemetry.context import attach
        from opentelemetry.trace import set_span_in_context

        context = copy_context()
        context.run(attach, set_span_in_context(self.span))
        return context

    def as_current(self) -> AbstractContextManager[Any]:
        """Context manager in which new spans are children of this one. Do not use it in generators,
        which pause.
        """
        if self.span is None:
            return nullcontext()
        from opentelemetry.trace import use_span

        return use_span(self.span, record_exception=False, set_status_on_exception=False)


@contextmanager
def operation(name: str, attributes: Attributes) -> Iterator[Operation]:
    """Yield a span that ends with the block, and record the type of an exception that leaves it."""
    tracer = _tracer()
    if tracer is None:
        yield Operation(None)
        return
    work = Operation(span := _start_span(tracer, name, attributes=dict(attributes)))
    try:
        yield work
    except BaseException as error:
        if not isinstance(error, GeneratorExit):
            work.fail(type(error).__name__)
        raise
    finally:
        span.end()


@contextmanager
def use_client_trace(carrier: Mapping[str, str] | None, attributes: Attributes) -> Iterator[None]:
    """Context manager that assigns episodes to the client's trace, from the `traceparent` in
    `carrier`.

    `attributes` are added to each of them.
    """
    if _tracer() is None:
        yield
        return
    from opentelemetry.context import attach, detach
    from opentelemetry.propagate import extract

    token, noted = attach(extract(dict(carrier or {}))), _client_attributes.set(attributes)
    try:
        yield
    finally:
        _client_attributes.reset(noted)
        detach(token)


def _tracer() -> Tracer | None:
    """Return the tracer, or None, without importing OpenTelemetry, if the process has not loaded
    it."""
    if "opentelemetry.trace" not in sys.modules:
        return None
    from opentelemetry.trace import get_tracer

    return get_tracer("collab")
