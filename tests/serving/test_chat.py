"""Chat completions of teams, requested by OpenAI's own client over a real socket."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from support.served import AUX, DUO, MAIN, SOLO, Server, error, recipe

if TYPE_CHECKING:
    import openai  # slow import; workers without these tests skip it
    from openai.types.chat import ChatCompletionMessageParam as Message

ASKED: list[Message] = [{"role": "user", "content": "What is two and two?"}]


def test_teams_are_listed_as_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["duo", "solo"]
    assert client.models.retrieve("solo").owned_by == "collab"


def test_the_joint_answer_is_the_content(client: openai.OpenAI) -> None:
    completion = client.chat.completions.create(model="duo", messages=ASKED, seed=3)
    [choice] = completion.choices
    assert choice.message.content == f"{AUX}\n\n{MAIN}"
    assert choice.finish_reason == "stop"
    reasoning = f"aux:\n{AUX}\n\nmain:\n{MAIN}"
    extra = choice.message.model_extra or {}
    assert (extra["reasoning"], extra["reasoning_content"]) == (reasoning, reasoning)


def test_response_includes_what_each_agent_wrote(client: openai.OpenAI) -> None:
    completion = client.chat.completions.create(model="duo", messages=ASKED, seed=3)
    reason = (completion.model_extra or {})["collab"]
    assert (reason["team"], reason["seed"], reason["warnings"]) == ("duo", 3, [])
    assert [(a["name"], a["turn"], a["text"]) for a in reason["agents"]] == [
        ("aux", 0, AUX),
        ("main", 0, MAIN),
    ]
    assert reason["agents"][1]["artifact"] == MAIN
    assert completion.usage
    words = len(AUX.split(" ")) + len(MAIN.split(" "))
    assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (14, words)
    assert completion.usage.total_tokens == 14 + words
    assert sum(a["usage"]["completion_tokens"] for a in reason["agents"]) == words


@pytest.mark.parametrize("model", ["duo", "solo"])
def test_streamed_chunks_add_up_to_the_whole_answer(client: openai.OpenAI, model: str) -> None:
    complete = client.chat.completions.create(model=model, messages=ASKED, seed=1)
    chunks = list(
        client.chat.completions.create(
            model=model, messages=ASKED, seed=1, stream=True, stream_options={"include_usage": True}
        )
    )
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert deltas[0].role == "assistant"
    assert "".join(d.content or "" for d in deltas) == complete.choices[0].message.content
    reasoning = "".join((d.model_extra or {}).get("reasoning", "") for d in deltas)
    assert reasoning == (complete.choices[0].message.model_extra or {}).get("reasoning", "")
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    assert chunks[-1].usage == complete.usage
    assert not any(chunk.usage for chunk in chunks[:-1])
    assert len(deltas) > 5, "the answer is streamed in pieces"


def test_the_bytes_of_a_stream(server: Server) -> None:
    body = {"model": "solo", "messages": ASKED, "stream": True, "max_tokens": 2, "seed": 0}
    answer = httpx.post(f"{server.url}/v1/chat/completions", json=body)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["x-accel-buffering"] == "no"
    events = answer.text.split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    reason = [json.loads(event.removeprefix("data: ")) for event in events[:-2]]
    assert [one["choices"][0]["delta"] for one in reason] == [
        {"role": "assistant", "content": ""},
        {"content": "one"},
        {"content": " says:"},
        {},
    ]
    assert reason[-1]["choices"][0]["finish_reason"] == "length"
    assert {one["object"] for one in reason} == {"chat.completion.chunk"}
    assert len({one["id"] for one in reason}) == 1


def test_max_tokens_applies_per_agent_and_only_lowers_the_limit(server: Server) -> None:
    with server.client() as client:
        cut = client.chat.completions.create(model="duo", messages=ASKED, max_tokens=2)
        client.chat.completions.create(model="duo", messages=ASKED, max_completion_tokens=10**6)
    assert cut.choices[0].finish_reason == "length"
    assert cut.choices[0].message.content == "aux says:\n\nmain says:"
    assert server.model.requests[-1].sampling.max_new_tokens == 256


@pytest.mark.parametrize(("stop", "stops"), [(" two", (" two",)), (["a", "b"], ("a", "b"))])
def test_stop_strings_end_each_response(server: Server, stop: Any, stops: tuple[str, ...]) -> None:
    assert server.ask(model="duo", stop=stop).json()["collab"]["warnings"] == []
    assert [r.sampling.stop for r in server.model.requests[-2:]] == [stops, stops]
    assert error(server.ask(stop=""))[2] == "stop"


def test_ignored_settings_are_noted(client: openai.OpenAI) -> None:
    completion = client.chat.completions.create(
        model="duo", messages=ASKED, temperature=0.1, frequency_penalty=1, user="me", store=False
    )
    noted = (completion.model_extra or {})["collab"]["warnings"]
    assert noted == ["frequency_penalty was ignored", "temperature was ignored"]


def test_a_server_may_let_requests_choose_the_temperature() -> None:
    with Server(recipe(SOLO), allow_sampling=True) as server, server.client() as client:
        client.chat.completions.create(model="solo", messages=ASKED, temperature=0.1)
        assert server.model.requests[0].sampling.temperature == 0.1


def test_same_seed_gives_the_same_request_seed(server: Server) -> None:
    with server.client() as client:
        for seed in (5, 5, 6):
            client.chat.completions.create(model="solo", messages=ASKED, seed=seed)
    seeds = [request.seed for request in server.model.requests[-3:]]
    assert seeds[0] == seeds[1] != seeds[2]


def test_system_messages_precede_the_text(server: Server) -> None:
    messages: list[Message] = [{"role": "system", "content": "Be short."}, *ASKED]
    with server.client() as client:
        client.chat.completions.create(model="solo", messages=messages)
    [message] = server.model.requests[-1].messages
    assert message.content == "Be short.\n\nWhat is two and two?"


EARLIER: list[Message] = [
    {"role": "user", "content": "Hello."},
    {"role": "assistant", "content": "Good day."},
    *ASKED,
]


def test_conversation_is_refused_if_no_template_reads_it(client: openai.OpenAI) -> None:
    import openai

    with pytest.raises(openai.BadRequestError, match="with --history join") as caught:
        client.chat.completions.create(model="duo", messages=EARLIER)
    assert caught.value.code == "unsupported_conversation"


def test_a_conversation_may_be_joined() -> None:
    with Server(recipe(SOLO), history="join") as server, server.client() as client:
        client.chat.completions.create(model="solo", messages=EARLIER)
        [message] = server.model.requests[0].messages
    assert message.content == "User: Hello.\n\nAssistant: Good day.\n\nWhat is two and two?"


def test_a_template_may_read_the_conversation() -> None:
    prompt = (
        "{% for message in task.conversation %}{{ message.content }} {% endfor %}{{ task.prompt }}"
    )
    team = {**SOLO, "agents": {"one": {"prompt": prompt}}}
    with Server(recipe(team)) as server, server.client() as client:
        client.chat.completions.create(model="solo", messages=EARLIER)
        [message] = server.model.requests[0].messages
    assert message.content == "Hello. Good day. What is two and two?"


def test_extra_fields_are_passed_to_the_templates() -> None:
    import openai

    team = {**SOLO, "agents": {"one": {"prompt": "{{ task.prompt }} in {{ task.language }}"}}}
    with Server(recipe(team)) as server, server.client() as client:
        extra = {"collab": {"fields": {"language": "Welsh"}}}
        completion = client.chat.completions.create(model="solo", messages=ASKED, extra_body=extra)
        assert completion.choices[0].message.content == "one says: What is two and two? in Welsh"
        with pytest.raises(openai.BadRequestError, match="'language'") as caught:
            client.chat.completions.create(model="solo", messages=ASKED)
    assert (caught.value.code, caught.value.param) == ("missing_field", "collab.fields.language")


@pytest.mark.parametrize(
    ("team", "known"),
    [
        ({}, "beside the message: none"),
        ({"agents": {"one": {"prompt": "{{ task.a }}{{ task.b }}"}}}, "message: a, b"),
        ({"agents": {"one": {"prompt": "{{ task.prompt }}{{ task.tone }}"}}}, "message: tone"),
        ({"join": "python"}, "message: entry_point, helper_name"),
        ({"agents": {"one": {"prompt": "{{ task.prompt }} {{ task }}"}}}, ""),
        ({"feedback": ["execution"], "turns": 2}, ""),
    ],
)
def test_unknown_fields_are_refused_with_the_known_ones(team: dict[str, Any], known: str) -> None:
    fields = {"language": "Welsh", "tone": "dry"} if "tone" in known else {"language": "Welsh"}
    with Server(recipe({**SOLO, **team}), run_code=True) as server:
        answer = server.ask(collab={"fields": fields})
    if known:
        assert error(answer) == (400, "unknown_field", "collab.fields.language")
        assert answer.json()["error"]["message"].endswith(known)
    else:
        assert "unknown_field" not in answer.text


def test_a_conversation_that_no_template_reads_is_an_unknown_field() -> None:
    with Server(recipe(SOLO)) as server:
        answer = server.ask(collab={"fields": {"conversation": "x"}})
    assert error(answer) == (400, "unknown_field", "collab.fields.conversation")


def test_adapters_of_the_agents_are_used() -> None:
    agents = {name: {**spec, "adapter": f"/a/{name}"} for name, spec in DUO["agents"].items()}
    with Server(recipe({**DUO, "agents": agents})) as server, server.client() as client:
        client.chat.completions.create(model="duo", messages=ASKED)
        assert [r.adapter for r in server.model.requests] == ["/a/aux", "/a/main"]


def test_a_field_that_the_message_replaces_is_warned_about() -> None:
    with Server(recipe(DUO)) as server:
        answer = server.ask(model="duo", collab={"fields": {"prompt": "Other."}})
    assert answer.json()["collab"]["warnings"] == ["collab.fields.prompt was ignored"]


def test_details_may_be_left_out() -> None:
    with Server(recipe(DUO), details=False) as server, server.client() as client:
        completion = client.chat.completions.create(model="duo", messages=ASKED)
        chunks = list(client.chat.completions.create(model="duo", messages=ASKED, stream=True))
    assert "collab" not in (completion.model_extra or {})
    assert not any("collab" in (chunk.model_extra or {}) for chunk in chunks)
    answers = [completion.choices[0].message, *(c.choices[0].delta for c in chunks if c.choices)]
    assert not any("reasoning" in name for answer in answers for name in answer.model_extra or {})
    written = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert written == completion.choices[0].message.content


def test_agent_prefix_is_streamed_first() -> None:
    team = {**SOLO, "agents": {"one": {**SOLO["agents"]["one"], "prefix": "Well,"}}}
    with Server(recipe(team)) as server, server.client() as client:
        chunks = list(client.chat.completions.create(model="solo", messages=ASKED, stream=True))
    contents = [c.choices[0].delta.content or "" for c in chunks if c.choices]
    assert contents[:3] == ["", "Well,one", " says:"]
    assert "".join(contents) == "Well,one says: What is two and two?"
