"""Spans of episodes, read by OpenTelemetry's in-memory exporter."""

from typing import Any

import httpx
from support.served import DUO, Server, Talker, recipe

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def ask(server: Server, **headers: str) -> None:
    body = {"model": "duo", "messages": [{"role": "user", "content": "my secret"}]}
    httpx.post(f"{server.url}/v1/chat/completions", json=body, headers=headers, timeout=20)


def test_an_episode_is_a_tree_of_spans_without_texts(exported: Any) -> None:
    with Server(recipe(DUO)) as server:
        ask(server, traceparent=PARENT)
    aux, main, team = exported.get_finished_spans()
    assert [span.name for span in (aux, main)] == ["invoke_agent aux", "invoke_agent main"]
    assert team.name == "invoke_workflow duo"
    assert f"{team.context.trace_id:x}" == PARENT.split("-")[1].lstrip("0")
    assert f"{team.parent.span_id:x}" == PARENT.split("-")[2]
    assert {span.parent.span_id for span in (aux, main)} == {team.context.span_id}
    assert aux.attributes["gen_ai.operation.name"] == "invoke_agent"
    assert aux.attributes["gen_ai.agent.name"] == "aux"
    assert aux.attributes["gen_ai.usage.input_tokens"] == 7
    assert team.attributes["gen_ai.workflow.name"] == "duo"
    assert all(team.start_time <= s.start_time <= s.end_time <= team.end_time for s in (aux, main))
    assert "secret" not in "".join(span.to_json() for span in (aux, main, team))


def test_failure_is_recorded_by_its_type(exported: Any) -> None:
    with Server(recipe(DUO), model=Talker(fails="ModelRefused")) as server:
        ask(server)
    spans = exported.get_finished_spans()  # of both agents and of the team
    assert [span.attributes["error.type"] for span in spans] == 3 * ["ModelRefused"]
    assert {(span.status.is_ok, span.status.description) for span in spans} == {(False, None)}


def test_canceled_episode_ends_its_span(exported: Any) -> None:
    with Server(recipe(DUO), model=Talker(holding=True), seconds=0.2) as server:
        ask(server)
    [team] = exported.get_finished_spans()
    assert team.attributes["error.type"] == "CancelledError"
