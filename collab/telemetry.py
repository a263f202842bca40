"""A team's episodes as spans of OpenTelemetry, by the names of its conventions for generative AI.

An episode is `invoke_workflow TEAM`, an agent's response `invoke_agent AGENT` below it. They go to
whatever the process has set up, and nowhere without that. What agents read or wrote is not in them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from collab.records import Decision, Episode
from collab.runtime.events import AgentActed, AgentActing, EpisodeFinished, Event

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

_NANOSECONDS = 1_000_000_000


class Spans:
    """The spans of one episode, made of its events."""

    def __init__(self, tracer: Tracer | None, team: str) -> None:
        """Without a tracer nothing is done."""
        self._tracer, self._team = tracer, team
        self._workflow: Span | None = None
        self._began: dict[tuple[int, int, str, int], int] = {}
        self._steps: dict[tuple[int, int, str], int] = {}

    def begin(self, attributes: Mapping[str, str | int], parent: Any = None) -> None:
        """The episode begins; `parent` is the context of who asked for it."""
        if self._tracer is not None:
            named = {"gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": self._team}
            self._workflow = self._tracer.start_span(
                f"invoke_workflow {self._team}", parent, attributes={**named, **attributes}
            )

    def see(self, event: Event) -> None:
        """Take what an event tells."""
        match event:
            case AgentActing(turn=turn, round=round_, agent=agent):
                place = (turn, round_, agent)
                step = self._steps[place] = self._steps.get(place, -1) + 1
                self._began[(*place, step)] = time.time_ns()
            case AgentActed(turn=turn, decision=decision):
                self._act(turn, decision)
            case EpisodeFinished(episode=episode):
                self._finish(episode)

    def end(self, failure: str | None = None) -> None:
        """The episode is over; `failure` says why it has no end of its own."""
        if self._workflow is not None:
            if failure:
                self._workflow.set_attribute("error.type", failure)
            self._workflow.end()
            self._workflow = None

    def _act(self, turn: int, decision: Decision) -> None:
        if self._tracer is None or self._workflow is None:
            return
        from opentelemetry.trace import set_span_in_context

        action = decision.action
        place = (turn, decision.round, decision.agent, decision.step)
        end = time.time_ns()
        began = self._began.pop(place, end)
        span = self._tracer.start_span(
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
        if self._workflow is not None and episode.reward is not None:
            score = {"gen_ai.evaluation.name": "reward"}
            self._workflow.add_event(
                "gen_ai.evaluation.result",
                {**score, "gen_ai.evaluation.score.value": episode.reward},
            )
        self.end(episode.failure.type if episode.failure else None)


@contextmanager
def traced(
    team: str, attributes: Mapping[str, str | int], carrier: Mapping[str, str] | None = None
) -> Iterator[Spans]:
    """The spans of an episode, ended with the block; `carrier` holds the asker's `traceparent`."""
    tracer, parent = _tracer(), None
    if tracer is not None and carrier:
        from opentelemetry.propagate import extract

        parent = extract(dict(carrier))
    spans = Spans(tracer, team)
    spans.begin(attributes, parent)
    try:
        yield spans
    except BaseException as error:
        spans.end(type(error).__name__)
        raise
    finally:
        spans.end()


def _tracer() -> Tracer | None:
    """None where nobody in this process has OpenTelemetry: then nothing of it is imported."""
    if "opentelemetry.trace" not in sys.modules:
        return None
    from opentelemetry.trace import get_tracer

    return get_tracer("collab")
