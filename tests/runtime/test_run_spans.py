"""Spans of runs and evaluations, read by OpenTelemetry's in-memory exporter."""

import gzip
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import collab

TESTS = Path(__file__).parent.parent
ROWS = [{"prompt": "my secret red", "answer": "red"}, {"prompt": "blue", "answer": "red"}]

OFF = """
import sys
from runtime.test_run_spans import team
team().run({"prompt": "x", "answer": "y"})
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""
SENT = """
import sys, types
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

class Exporter(InMemorySpanExporter):
    def export(self, spans):
        print(*sorted(span.name for span in spans))
        return super().export(spans)

module = types.ModuleType("exporter")
module.OTLPSpanExporter = Exporter
for part in ("", ".otlp", ".otlp.proto", ".otlp.proto.http", ".otlp.proto.http.trace_exporter"):
    sys.modules["opentelemetry.exporter" + part] = module
from collab import telemetry
print(telemetry.set_up_tracing(), telemetry.set_up_tracing())
from runtime.test_run_spans import team
team().run({"prompt": "x", "answer": "y"})
"""
REAL = """
from collab import telemetry
print(telemetry.set_up_tracing())
from runtime.test_run_spans import team
team().run({"prompt": "x", "answer": "y"})
"""


def right(context: Any) -> float:
    return float(context.field("answer") in context.joint.text)


def team(name: str = "duo", **parts: Any) -> collab.Team:
    agents = {agent: collab.Agent(prompt="{{ task.prompt }}") for agent in ("aux", "main")}
    return collab.Team(
        name=name, agents=agents, model="echo", rewards=[right], hidden=["answer"], **parts
    )


def test_spans_leave_seeded_randomness_alone_and_have_unique_ids(exported: Any) -> None:
    drawn = []
    for _ in range(2):
        random.seed(7)
        team().run(ROWS)
        drawn.append(random.random())
    assert set(drawn) == {random.Random(7).random()}
    ids = [span.context.span_id for span in exported.get_finished_spans()]
    assert len(set(ids)) == len(ids) == 14


def test_a_run_is_a_tree_of_spans_without_texts(exported: Any) -> None:
    team().run(ROWS)
    *spans, run = exported.get_finished_spans()
    assert run.name == "run duo"
    episodes = [span for span in spans if span.name == "invoke_workflow duo"]
    agents = [span for span in spans if span.name.startswith("invoke_agent")]
    assert (len(episodes), len(agents)) == (2, 4)
    assert {span.parent.span_id for span in episodes} == {run.context.span_id}
    ids = {span.context.span_id for span in episodes}
    assert {span.parent.span_id for span in agents} == ids
    assert {span.attributes["gen_ai.agent.name"] for span in agents} == {"aux", "main"}
    rewards = [span.events[0].attributes["gen_ai.evaluation.score.value"] for span in episodes]
    assert sorted(rewards) == [0.0, 1.0]
    assert "secret" not in "".join(span.to_json() for span in spans)


def test_evaluation_span_contains_the_episodes_of_all_teams(exported: Any) -> None:
    collab.evaluate(team("one"), team("two"), task=ROWS)
    *spans, root = exported.get_finished_spans()
    assert root.name.startswith("eval ")
    episodes = [span for span in spans if span.name.startswith("invoke_workflow")]
    assert sorted(span.attributes["gen_ai.workflow.name"] for span in episodes) == [
        *("one", "one"),
        *("two", "two"),
    ]
    assert {span.parent.span_id for span in episodes} == {root.context.span_id}


def test_run_span_is_a_child_of_the_current_span(exported: Any) -> None:
    from opentelemetry.trace import get_tracer

    with get_tracer("mine").start_as_current_span("mine") as mine:
        team().run(ROWS[:1])
    spans = {span.name: span for span in exported.get_finished_spans()}
    assert spans["run duo"].parent.span_id == mine.get_span_context().span_id


def run_code(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(TESTS), **environment},
        check=True,
    )


def test_opentelemetry_is_not_imported_when_disabled() -> None:
    assert run_code(OFF).stdout == "[]\n"


def test_all_spans_are_sent_to_the_configured_collector() -> None:
    done = run_code(SENT, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9")
    assert done.stdout.splitlines() == [
        "None None",
        "invoke_agent aux invoke_agent main invoke_workflow duo run duo",
    ]


@contextmanager
def collector() -> Iterator[tuple[str, list[bytes]]]:
    """A server that accepts all requests; yields its address and the request bodies."""
    got: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            body = self.rfile.read(int(self.headers["Content-Length"]))
            zipped = self.headers.get("Content-Encoding") == "gzip"
            got.append(gzip.decompress(body) if zipped else body)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", got
        server.shutdown()


def test_the_real_exporter_sends_the_tree_to_a_collector() -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="needs the extra otel")
    sent = import_module("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    with collector() as (url, got):
        done = run_code(REAL, OTEL_EXPORTER_OTLP_ENDPOINT=url)
    assert (done.stdout, done.stderr) == ("None\n", "")
    requests = [sent.ExportTraceServiceRequest.FromString(body) for body in got]
    resources = [resource for request in requests for resource in request.resource_spans]
    named = {a.key: a.value.string_value for r in resources for a in r.resource.attributes}
    assert named["service.name"] == "collab"
    spans = [span for r in resources for scope in r.scope_spans for span in scope.spans]
    place = {span.span_id: span.name for span in spans}
    assert {(span.name, place.get(span.parent_span_id)) for span in spans} == {
        ("run duo", None),
        ("invoke_workflow duo", "run duo"),
        ("invoke_agent aux", "invoke_workflow duo"),
        ("invoke_agent main", "invoke_workflow duo"),
    }


def test_missing_exporter_is_noted() -> None:
    blocked = "import sys; sys.modules['opentelemetry.exporter'] = None\n"
    code = blocked + "from collab.cli.options import set_up_tracing; set_up_tracing()"
    done = run_code(code, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9")
    assert done.stderr == (
        "note: OTEL_EXPORTER_OTLP_ENDPOINT is set, but no spans are sent; run"
        " pip install 'collab-agents[otel]'\n"
    )
    assert run_code(code, OTEL_EXPORTER_OTLP_ENDPOINT="").stderr == ""
