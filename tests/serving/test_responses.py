"""Responses of teams, requested by OpenAI's own client over a real socket."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from pydantic import TypeAdapter
from support.served import AUX, DUO, MAIN, SOLO, Server, Talker, recipe

if TYPE_CHECKING:
    import openai  # slow import; workers without these tests skip it

ASKED = "What is two and two?"


def post(server: Server, **body: Any) -> httpx.Response:
    return httpx.post(f"{server.url}/v1/responses", json={"model": "duo", **body}, timeout=20)


def test_the_joint_answer_is_the_only_message(client: openai.OpenAI) -> None:
    response = client.responses.create(model="duo", input=ASKED)
    assert response.output_text == f"{AUX}\n\n{MAIN}"
    *reasoning_items, answer = response.output
    assert [item.type for item in reasoning_items] == ["reasoning", "reasoning"]
    assert [item.agent["agent_name"] for item in reasoning_items] == ["aux", "main"]  # type: ignore[union-attr]
    assert [item.content[0].text for item in reasoning_items] == [AUX, MAIN]  # type: ignore[union-attr, index]
    assert answer.phase == "final_answer"  # type: ignore[union-attr]
    assert response.usage
    words = len(AUX.split(" ")) + len(MAIN.split(" "))
    assert (response.usage.input_tokens, response.usage.output_tokens) == (14, words)
    assert len((response.model_extra or {})["collab"]["agents"]) == 2


def test_the_agents_responses_may_be_left_out() -> None:
    with Server(recipe(DUO), details=False) as server:
        [answer] = post(server, input=ASKED).json()["output"]
        streamed = events(post(server, input=ASKED, stream=True).text)
    assert answer["content"][0]["text"] == f"{AUX}\n\n{MAIN}"
    assert not any("reasoning" in event["type"] for event in streamed)
    assert [item["type"] for item in streamed[-1]["response"]["output"]] == ["message"]
    assert "collab" not in streamed[-1]["response"]


def test_chat_and_responses_give_the_same_answer(client: openai.OpenAI) -> None:
    chat = client.chat.completions.create(
        model="duo", messages=[{"role": "user", "content": ASKED}], seed=1
    )
    response = client.responses.create(model="duo", input=ASKED, extra_body={"seed": 1})
    assert response.output_text == chat.choices[0].message.content


@pytest.mark.parametrize("model", ["duo", "solo"])
def test_the_clients_own_stream_rebuilds_the_response(client: openai.OpenAI, model: str) -> None:
    complete = client.responses.create(model=model, input=ASKED)
    with client.responses.stream(model=model, input=ASKED) as events:
        kinds = [event.type for event in events]
        final = events.get_final_response()
    assert final.output_text == complete.output_text
    assert [item.type for item in final.output] == [item.type for item in complete.output]
    assert final.usage == complete.usage
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"
    assert ("response.reasoning_text.delta" in kinds) == (model == "duo")
    assert kinds.count("response.output_text.delta") == (1 if model == "duo" else 7)


@pytest.mark.parametrize("model", ["duo", "solo"])
def test_every_event_validates_against_the_client_types(server: Server, model: str) -> None:
    from openai.types.responses import Response, ResponseStreamEvent

    line = events(post(server, model=model, input=ASKED, stream=True).text)
    assert [event["sequence_number"] for event in line] == list(range(len(line)))
    reader: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
    for event in line:
        assert type(reader.validate_python(event)).model_fields["type"].annotation
    plain = post(server, model=model, input=ASKED, seed=1).json()
    Response.model_validate(plain)
    final = line[-1]["response"]
    assert [{**item, "id": ""} for item in final["output"]] == [
        {**item, "id": ""} for item in plain["output"]
    ]


THINK = """\
async def think(move):
    await move.generate()
    await move.generate()
"""


def test_every_response_of_a_move_is_an_item_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "think.py").write_text(THINK)
    agents = {"one": {**SOLO["agents"]["one"], "harness": f"{tmp_path / 'think.py'}:think"}}
    with Server(recipe({**SOLO, "agents": agents})) as server:
        line = events(post(server, model="solo", input=ASKED, stream=True).text)
    added = [event["item"]["id"] for event in line if event["type"].endswith("item.added")]
    assert added == [item["id"] for item in line[-1]["response"]["output"]]
    for number, item in enumerate(line[-1]["response"]["output"][:2]):
        deltas = [e["delta"] for e in line if "delta" in e and e["output_index"] == number]
        assert "".join(deltas) == item["content"][0]["text"]


def events(text: str) -> list[dict[str, Any]]:
    result = []
    for block in text.strip().split("\n\n"):
        if block.startswith(":"):
            continue
        kind, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert kind == f"event: {event['type']}"
        result.append(event)
    return result


def test_the_order_of_a_stream(server: Server) -> None:
    line = events(post(server, input=ASKED, stream=True, max_output_tokens=1).text)
    agent = ["output_item.added", "reasoning_text.delta", "reasoning_text.done", "output_item.done"]
    text = ["output_text.delta", "output_text.done"]
    answer = ["output_item.added", "content_part.added", *text, "content_part.done"]
    assert [event["type"].removeprefix("response.") for event in line] == [
        "created",
        "in_progress",
        *agent,
        *agent,
        *answer,
        "output_item.done",
        "incomplete",
    ]
    assert line[-1]["response"]["incomplete_details"] == {"reason": "max_output_tokens"}


def test_messages_and_instructions(server: Server) -> None:
    items = [
        {"role": "developer", "content": "Be short."},
        {
            "type": "reasoning",
            "content": [{"type": "reasoning_text", "text": "of an earlier answer"}],
        },
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": ASKED}]},
    ]
    answer = post(server, model="solo", input=items, instructions="Be kind.")
    assert answer.json()["output"][-1]["content"][0]["text"] == (
        f"one says: Be kind.\n\nBe short.\n\n{ASKED}"
    )


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "input"),
        ({"input": []}, "input"),
        ({"input": ASKED, "store": True}, "store"),
        ({"input": ASKED, "previous_response_id": "resp_1"}, "previous_response_id"),
        ({"input": ASKED, "conversation": "c"}, "conversation"),
        ({"input": ASKED, "prompt": {"id": "pmpt_1"}}, "prompt"),
        ({"input": ASKED, "include": ["message.output_text.logprobs"]}, "include"),
        ({"input": ASKED, "top_logprobs": 2}, "top_logprobs"),
        ({"input": ASKED, "tool_choice": "required"}, "tool_choice"),
        ({"input": [{"content": "One."}, {"content": "Two."}]}, "input"),
        ({"input": ASKED, "text": {"format": {"type": "json_schema"}}}, "text.format"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image"}]}]},
            "input[0].content[0].type",
        ),
        ({"input": [{"type": "function_call_output", "output": "x"}]}, "input[0].type"),
    ],
)
def test_unsupported_values_name_their_parameter(
    server: Server, body: dict[str, Any], param: str
) -> None:
    answer = post(server, **body)
    assert answer.status_code == 400
    assert param == answer.json()["error"]["param"], answer.text


def test_invalid_value_is_named_with_its_parameter(server: Server) -> None:
    answer = post(server, input=ASKED, temperature=9)
    assert answer.json()["error"]["message"] == "temperature: must be at most 2"
    answer = httpx.post(f"{server.url}/v1/responses", json={"model": "duo", "input": []})
    assert answer.json()["error"]["message"] == "input: must have at least 1 item"


def test_error_after_the_stream_began_ends_it_as_failed() -> None:
    import openai

    with Server(recipe(SOLO), model=Talker(after=1, holding=True), seconds=0.5) as server:
        line = events(post(server, model="solo", input=ASKED, stream=True).text)
        with server.client() as client, pytest.raises(openai.APIError, match="no answer"):
            list(client.responses.create(model="solo", input=ASKED, stream=True))
    assert [event["type"] for event in line[-2:]] == ["response.failed", "error"]
    assert line[-2]["response"]["error"]["message"] == "no answer within 0.5 s"
